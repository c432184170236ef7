-- Admits a client's request. A refused request changes nothing.
-- KEYS: the client's state; its leases, by expiry time; its month.
-- ARGV: the lease ("" if there is none); limits ("" for no limit) on responses in progress, requests per minute, tokens per minute
-- and tokens per month; the tokens that the request takes; the lifetimes of a lease, of the state and of the month, in seconds.
-- Returns a code; the time to wait; the times until the limits on requests and tokens are fully available again; the time on the
-- server's clock at which the tokens are fully available again (all in microseconds); and the counts of the month.
local state, leases, month = KEYS[1], KEYS[2], KEYS[3]
local lease, max_streams, max_requests = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local max_tokens, budget, tokens = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local MINUTE = 60000000

local time = redis.call('TIME')
local seconds = tonumber(time[1])
local now = seconds * 1000000 + tonumber(time[2])

local function number(value) return tonumber(value or 0) or 0 end
local function text(value) return string.format('%.0f', value) end

-- Removes the leases that were not renewed.
local known = redis.call('HMGET', state, 'requests', 'tokens', 'reserved')
local requests_full, tokens_full, reserved = number(known[1]), number(known[2]), number(known[3])
for _, old in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', seconds, 'LIMIT', 0, 1000)) do
    redis.call('ZREM', leases, old)
    reserved = reserved - number(string.match(old, ':(%d+)$'))
end
local open = redis.call('ZCARD', leases)
if open == 0 or reserved < 0 then reserved = 0 end

-- The generic cell rate algorithm: the state of a bucket is the time at which it is full again.
local function after(full, limit, amount)
    return math.max(full, now) + math.floor(amount * MINUTE / limit)
end

local counts = redis.call('HMGET', month, 'requests', 'input', 'output')
local asked, input, output = number(counts[1]), number(counts[2]), number(counts[3])
local used = input + output
local code, wait = 0, 0
local requests_after, tokens_after = requests_full, tokens_full
if max_tokens then tokens_after = after(tokens_full, max_tokens, math.min(tokens, max_tokens)) end
if max_requests then requests_after = after(requests_full, max_requests, 1) end
local late_tokens, late_requests = tokens_after - now - MINUTE, requests_after - now - MINUTE

if max_streams and lease ~= '' and open >= max_streams then
    code = 1
elseif budget and used >= budget then
    code = 2
elseif budget and used + reserved >= budget then
    code = 3
elseif max_tokens and late_tokens > 0 then
    code, wait = 4, late_tokens
elseif max_requests and late_requests > 0 then
    code, wait = 5, late_requests
end

if code == 0 then
    requests_full, tokens_full = requests_after, tokens_after
    if lease ~= '' then
        redis.call('ZADD', leases, seconds + tonumber(ARGV[7]), lease)
        redis.call('EXPIRE', leases, tonumber(ARGV[7]) * 2)
        reserved = reserved + number(string.match(lease, ':(%d+)$'))
    end
    asked = redis.call('HINCRBY', month, 'requests', 1)
    redis.call('EXPIRE', month, ARGV[9])
end
redis.call('HSET', state, 'requests', text(requests_full), 'tokens', text(tokens_full), 'reserved', text(reserved))
local latest = math.max(requests_full, tokens_full)
redis.call('EXPIRE', state, math.max(tonumber(ARGV[8]), math.ceil((latest - now) / 1000000)))
return { code, wait, math.max(requests_full - now, 0), math.max(tokens_full - now, 0), tokens_full, asked, input, output }
