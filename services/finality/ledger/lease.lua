-- Lease of one partition: who may try to lead it. A hint that spares duels; it decides nothing.
-- KEYS[1] the lease.  ARGV: verb (acquire, renew, release), owner, boot id, time to live in ms.
-- The boot id is part of the ownership: a second process of the same replica does not hold the first one's lease.
local mine = ARGV[2] .. ' ' .. ARGV[3]
local held = redis.pcall('GET', KEYS[1])
if ARGV[1] == 'acquire' then
  -- Anything that is no lease of ours in form (another type, no expiry) would block for ever: it counts as free.
  local free = type(held) ~= 'string' or held == mine or redis.call('PTTL', KEYS[1]) == -1
  if free then
    redis.call('SET', KEYS[1], mine, 'PX', ARGV[4])
    return 1
  end
elseif held == mine then
  if ARGV[1] == 'renew' then
    return redis.call('PEXPIRE', KEYS[1], ARGV[4])
  elseif ARGV[1] == 'release' then
    return redis.call('DEL', KEYS[1])
  end
end
return 0
