-- A queue in Lua for a plain Tarantool: as much of Tarantool Queue as the benchmark calls. Who waits is woken, nobody
-- polls. LISTEN is the address and WAL_MODE how the log is written.
local fiber = require('fiber')

box.cfg{
    listen = os.getenv('LISTEN'), wal_mode = os.getenv('WAL_MODE'),
    memtx_memory = 1024 * 1024 * 1024, net_msg_max = 4096, log_level = 2,
}
box.schema.user.grant('guest', 'super', nil, nil, { if_not_exists = true })

local ready, taken = 'r', 't'
local tube = {}
tube.__index = tube

-- put stores a task, and wakes one who waits.
function tube:put(data)
    local task = self.space:insert{box.NULL, ready, data}
    self.more:signal()
    return task
end

-- take gives out the first task that is ready, and waits for one.
function tube:take(patience)
    local deadline = fiber.clock() + patience
    while true do
        local first = self.space.index.state:min{ready}
        if first then
            return self.space:update(first[1], {{'=', 2, taken}})
        end
        local left = deadline - fiber.clock()
        if left <= 0 or not self.more:wait(left) then
            return
        end
    end
end

-- ack removes a task that is done.
function tube:ack(id)
    return self.space:delete(id)
end

queue = { tube = {} }
local making = fiber.channel(1) -- holds a value while somebody makes a tube

function queue.create_tube(name)
    making:put(true)
    if not queue.tube[name] then
        local space = box.schema.space.create(name)
        space:create_index('id', { sequence = true })
        space:create_index('state', { parts = {{2, 'string'}, {1, 'unsigned'}} })
        queue.tube[name] = setmetatable({ space = space, more = fiber.cond() }, tube)
    end
    making:get()
    return true
end
