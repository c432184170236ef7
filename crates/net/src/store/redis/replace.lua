-- Replaces a string that instances share, unless another instance has replaced it first.
-- KEYS: the string. ARGV: its previous revision ("" if there is none); the new revision; the new string.
-- Returns 1 if the string was replaced.
local revision = redis.call('HMGET', KEYS[1], 'revision')[1] or ''
if revision ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'revision', ARGV[2], 'text', ARGV[3])
return 1
