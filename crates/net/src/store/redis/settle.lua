-- Replaces the amounts that a request has reserved with its usage.
-- KEYS: the client's state; its leases; its month.
-- ARGV: the lease ("" for a request without a lease, which is counted here; "-" for usage that belongs to no request); "1" if this
-- may be a repetition, "2" if the request is counted without this lease, else "0"; the limit on tokens per minute ("" for no limit),
-- the number of tokens taken, and the time at which they are fully available again, in microseconds of the server's clock; the
-- tokens of the request and of the response; the lifetimes of the state and of the month, in seconds.
local state, leases, month = KEYS[1], KEYS[2], KEYS[3]
local lease, limit, taken, full_again = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local input, output = tonumber(ARGV[6]), tonumber(ARGV[7])
local MINUTE = 60000000

local was_open = lease ~= '' and redis.call('ZREM', leases, lease) == 1
-- A repetition is recognised by its missing lease, since the first attempt removed the lease.
if ARGV[2] ~= '0' and not was_open then return 0 end

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local function number(value) return tonumber(value or 0) or 0 end
local function text(value) return string.format('%.0f', value) end

local known = redis.call('HMGET', state, 'tokens', 'reserved')
local full, reserved = number(known[1]), number(known[2])
if was_open then
    reserved = math.max(reserved - number(string.match(lease, ':(%d+)$')), 0)
end
if limit then
    local function cost(amount) return math.floor(amount * MINUTE / limit) end
    local used = input + output
    if used > taken then
        full = math.max(full, now) + cost(used - taken)
    else
        -- The part that has refilled by itself is not returned again.
        full = full - math.min(cost(taken) - cost(used), math.max(full_again - now, 0))
    end
end
redis.call('HSET', state, 'tokens', text(full), 'reserved', text(reserved))
redis.call('EXPIRE', state, math.max(tonumber(ARGV[8]), math.ceil((full - now) / 1000000)))
if lease == '' then redis.call('HINCRBY', month, 'requests', 1) end
if ARGV[2] == '2' then redis.call('HINCRBY', month, 'requests', -1) end
if lease == '' or input + output > 0 then
    redis.call('HINCRBY', month, 'input', input)
    redis.call('HINCRBY', month, 'output', output)
    redis.call('EXPIRE', month, ARGV[9])
end
return 1
