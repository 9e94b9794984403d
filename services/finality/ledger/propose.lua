-- Proposal of one partition's leader: where voters should attest. Replaced freely, but not by a lower term.
-- KEYS[1] the proposal.  ARGV: time to live in ms, term, index, chain, position, input chain.
-- It expires, so that a term out of a broken process does not stand in the way for longer than that.
-- Numbers are decimal text: Lua's are doubles. Text compares by length, then by digits.
local function above(one, other)
  if #one ~= #other then
    return #one > #other
  end
  return one > other
end

local function term_of(text)
  return cjson.decode(text)[1]
end

local present = redis.pcall('GET', KEYS[1])
if type(present) == 'string' then
  local readable, term = pcall(term_of, present)
  if readable and type(term) == 'string' and above(term, ARGV[2]) then
    return 0
  end
end
local proposal = cjson.encode({ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]})
redis.call('SET', KEYS[1], proposal, 'PX', ARGV[1])
return 1
