-- Replaces a text that instances share, if nobody else has done so.
-- KEYS: the text. ARGV: its revision until now, "" for none; the next one; the next text.
-- Returns 1 if it was replaced.
local revision = redis.call('HMGET', KEYS[1], 'revision')[1] or ''
if revision ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'revision', ARGV[2], 'text', ARGV[3])
return 1
