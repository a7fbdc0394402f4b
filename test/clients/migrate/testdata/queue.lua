-- A Tarantool server with tubes in the form in which the queue module keeps them, and as many of its procedures as
-- clients in the tests call. Usage: tarantool queue.lua PORT DIRECTORY
local fiber = require('fiber')

box.cfg{listen = '127.0.0.1:' .. arg[1], work_dir = arg[2], log = 'tarantool.log', log_level = 3}

-- The places of the fields, by the type of a tube.
local timed = {next_event = 3, ttl = 4, ttr = 5, pri = 6, created = 7}
local kinds = {
    fifo = {data = 3},
    utube = {utube = 3, data = 4},
    fifottl = {timed = timed, data = 8},
    limfifottl = {timed = timed, data = 8},
    utubettl = {timed = timed, utube = 8, data = 9},
}
local forever = 365 * 86400 * 100

local function us(seconds) return 0ULL + math.floor(seconds * 1000000) end

queue = {tube = {}}
local owners = {} -- tube -> task -> connection
local gone = {} -- connections that have ended, while calls of theirs may still wait
local methods = {}

local function shown(tube, row) return row and {row[1], row[2], row[tube.kind.data]} end

function methods.put(tube, data, opts)
    if opts == nil then opts = {} end
    local last = tube.space.index[0]:max()
    local row = {last and last[1] + 1 or 0, 'r'}
    local at = tube.kind.timed
    if at then
        local ttl, now, delay = opts.ttl or tube.opts.ttl or forever, fiber.time64(), opts.delay or 0
        row[2] = delay > 0 and '~' or 'r'
        row[at.next_event] = now + us(delay > 0 and delay or ttl)
        row[at.ttl], row[at.ttr] = us(ttl + delay), us(opts.ttr or tube.opts.ttr or ttl)
        row[at.pri], row[at.created] = opts.pri or 0, now
    end
    if tube.kind.utube then row[tube.kind.utube] = tostring(opts.utube) end
    row[tube.kind.data] = data
    return shown(tube, tube.space:insert(row))
end

local function ready(tube)
    for _, row in tube.space.index.status:pairs({'r'}) do
        local busy = false
        if tube.kind.utube then
            for _, other in tube.space.index.status:pairs({'t'}) do
                busy = busy or other[tube.kind.utube] == row[tube.kind.utube]
            end
        end
        if not busy then return row end
    end
end

function methods.take(tube, timeout)
    local deadline = fiber.time() + (timeout or forever)
    local row = ready(tube)
    while row == nil and fiber.time() < deadline do
        fiber.sleep(0.01)
        row = ready(tube)
    end
    if row == nil or gone[box.session.id()] then return end
    owners[tube.name][row[1]] = box.session.id()
    return shown(tube, tube.space:update(row[1], {{'=', 2, 't'}}))
end

function methods.ack(tube, id)
    if owners[tube.name][id] ~= box.session.id() then box.error(box.error.PROC_LUA, 'Task was not taken') end
    owners[tube.name][id] = nil
    local row = shown(tube, tube.space:delete(id))
    row[2] = '-'
    return row
end

function methods.bury(tube, id)
    owners[tube.name][id] = nil
    return shown(tube, tube.space:update(id, {{'=', 2, '!'}}))
end

local function open(name, space, kind, opts)
    owners[name] = {}
    queue.tube[name] = setmetatable({name = name, space = space, kind = kind, opts = opts}, {__index = methods})
end

function queue.create_tube(name, kind, opts)
    if opts == nil then opts = {} end
    local layout = kinds[kind] or kinds.fifo
    local space = box.schema.create_space(name)
    space:create_index('task_id', {parts = {1, 'unsigned'}})
    local parts = {2, 'string', 1, 'unsigned'}
    if layout.timed then parts = {2, 'string', layout.timed.pri, 'unsigned', 1, 'unsigned'} end
    space:create_index('status', {parts = parts})
    local last = box.space._queue.index.tube_id:max()
    box.space._queue:insert{name, last and last[2] + 1 or 0, name, kind, opts}
    open(name, space, layout, opts)
end

box.session.on_disconnect(function()
    gone[box.session.id()] = true
    for name, tasks in pairs(owners) do
        for id, owner in pairs(tasks) do
            if owner == box.session.id() then
                tasks[id] = nil
                queue.tube[name].space:update(id, {{'=', 2, 'r'}})
            end
        end
    end
end)

box.once('queue', function()
    box.schema.create_space('_queue')
    box.space._queue:create_index('tube', {parts = {1, 'string'}})
    box.space._queue:create_index('tube_id', {parts = {2, 'unsigned'}})
    for name, rights in pairs{filler = 'read,write,execute,create', reader = 'read', worker = 'read,write,execute'} do
        box.schema.user.create(name, {password = 'secret of ' .. name})
        box.schema.user.grant(name, rights, 'universe')
    end
end)
