-- Puts a stamped value iff its stamp is newer; one script, so nobody looks between.
-- KEYS[1] the value, KEYS[2] the set of known logs.
-- ARGV: log id, epoch, number, step, then field, bytes, field, bytes, ...
local names = {'~epoch', '~number', '~step'}
local held = redis.call('HMGET', KEYS[1], unpack(names))
local newer = not held[1]
local older = false
if held[1] then
  for i = 1, 3 do
    local mine, theirs = tonumber(ARGV[i + 1]), tonumber(held[i])
    if mine ~= theirs then
      newer = mine > theirs
      older = mine < theirs
      break
    end
  end
end
if older then
  return {'stale_writer', held[1], held[2], held[3]}
end
if not newer then
  local same = redis.call('HLEN', KEYS[1]) == 3 + (#ARGV - 4) / 2
  for i = 5, #ARGV, 2 do
    if redis.call('HGET', KEYS[1], ARGV[i]) ~= ARGV[i + 1] then
      same = false
    end
  end
  redis.call('SADD', KEYS[2], ARGV[1])
  return {same and 'repeated' or 'conflict', held[1], held[2], held[3]}
end
redis.call('DEL', KEYS[1])
for i = 1, 3 do
  redis.call('HSET', KEYS[1], names[i], ARGV[i + 1])
end
for i = 5, #ARGV, 2 do
  redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
end
redis.call('SADD', KEYS[2], ARGV[1])
return {'written', ARGV[2], ARGV[3], ARGV[4]}
