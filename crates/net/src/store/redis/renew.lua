-- Renews leases of a client. Leases that the server has lost are restored with the tokens that they reserve.
-- KEYS: the client's state; its leases. ARGV: the lifetimes of a lease and of the state, in seconds; the leases.
local state, leases = KEYS[1], KEYS[2]
local expires = tonumber(redis.call('TIME')[1]) + tonumber(ARGV[1])
for place = 3, #ARGV do
    if redis.call('ZADD', leases, expires, ARGV[place]) == 1 then
        redis.call('HINCRBY', state, 'reserved', string.match(ARGV[place], ':(%d+)$') or 0)
    end
end
redis.call('EXPIRE', leases, tonumber(ARGV[1]) * 2)
if redis.call('TTL', state) < tonumber(ARGV[2]) then redis.call('EXPIRE', state, ARGV[2]) end
return 1
