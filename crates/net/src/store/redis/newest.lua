-- Returns a string that instances share and its revision, or nothing if the revision is the known one.
-- KEYS: the string. ARGV: the known revision ("" if there is none).
local kept = redis.call('HMGET', KEYS[1], 'revision', 'text')
local revision = kept[1] or ''
if revision == ARGV[1] then return false end
return {revision, kept[2] or ''}
