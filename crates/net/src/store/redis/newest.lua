-- A text that instances share, and its revision; nothing if that is known.
-- KEYS: the text. ARGV: the revision that is known, "" for none.
local kept = redis.call('HMGET', KEYS[1], 'revision', 'text')
local revision = kept[1] or ''
if revision == ARGV[1] then return false end
return {revision, kept[2] or ''}
