-- Row of one voter in one partition: its clock and the facts that it attests.
-- KEYS[1] the voter's own row.
-- ARGV: time to live in ms, votes to keep, boot id, clock, then for each vote: index, chain, position, input chain,
-- signature. A vote is stored as {index, chain, position, input chain, signature, boot id}, all text.
--
-- Sticky: a different earlier fact at the same index stays, and both are kept as the conflict (the one at the lowest
-- index). Votes are kept by when they were last written, not by index: a leader that is behind proposes low indices,
-- and the votes for those must live long enough to be read.
-- Numbers are decimal text: Lua's are doubles. Text compares by length, then by digits.
local ttl, keep, boot, clock = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]

local function below(one, other)
  if #one ~= #other then
    return #one < #other
  end
  return one < other
end

local function same_fact(one, other)
  return one[2] == other[2] and one[3] == other[3] and one[4] == other[4]
end

local function add(row, vote)
  for place, earlier in ipairs(row.votes) do
    if earlier[1] == vote[1] then
      if same_fact(earlier, vote) then
        table.remove(row.votes, place)
        table.insert(row.votes, vote)
      elseif #row.conflict == 0 or below(vote[1], row.conflict[1][1]) then
        row.conflict = {earlier, vote}
      end
      return
    end
  end
  table.insert(row.votes, vote)
end

-- An empty Lua table has no type of its own in JSON, so lists are written out by hand.
local function list(votes)
  local parts = {}
  for place, vote in ipairs(votes) do
    parts[place] = cjson.encode(vote)
  end
  return '[' .. table.concat(parts, ',') .. ']'
end

local function build(text)
  local row = text and cjson.decode(text) or {votes = {}, conflict = {}}
  for at = 5, #ARGV, 5 do
    add(row, {ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], boot})
  end
  while #row.votes > keep do
    table.remove(row.votes, 1)
  end
  return '{"boot":' .. cjson.encode(boot) .. ',"clock":' .. cjson.encode(clock)
    .. ',"conflict":' .. list(row.conflict) .. ',"votes":' .. list(row.votes) .. '}'
end

local present = redis.pcall('GET', KEYS[1])
local readable, text = pcall(build, type(present) == 'string' and present or nil)
if not readable then
  text = build(nil) -- what lay there was no row
end
redis.call('SET', KEYS[1], text, 'PX', ttl)
return 1
