-- Puts a stamped value iff its stamp is newer; one script, so nobody looks between.
-- KEYS[1] the value, KEYS[2] the set of known logs.
-- ARGV: log id, epoch, number, step, then field, bytes, field, bytes, ...
-- Whatever is not a stamped value counts as absent: nobody reads it, so nothing is lost by it.
local names = {'~epoch', '~number', '~step'}
local function whole(text)
  if not text or not string.match(text, '^%-?%d+$') or #text > 16 then
    return nil
  end
  local number = tonumber(text)
  if number < -1 or number >= 9007199254740992 then
    return nil
  end
  return number
end
local held, stamp = {}, {}
if redis.call('TYPE', KEYS[1]).ok == 'hash' and redis.call('HLEN', KEYS[1]) > 3 then
  held = redis.call('HMGET', KEYS[1], unpack(names))
  stamp = {whole(held[1]), whole(held[2]), whole(held[3])}
end
local there = stamp[1] and stamp[2] and stamp[3]
local newer = not there
local older = false
if there then
  for i = 1, 3 do
    local mine = tonumber(ARGV[i + 1])
    if mine ~= stamp[i] then
      newer = mine > stamp[i]
      older = mine < stamp[i]
      break
    end
  end
end
if older then
  return {'stale_writer', held[1], held[2], held[3]}
end
local index = redis.call('TYPE', KEYS[2]).ok
if index ~= 'set' and index ~= 'none' then
  redis.call('DEL', KEYS[2])
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
