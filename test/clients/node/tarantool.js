// The Node connector of Tarantool, tarantool-driver, against a running server at
// HOST and PORT, with LOGIN and PASSWORD if it asks for them, and CA_FILE if it speaks
// TLS. This driver sends every call in the form of Tarantool 1.6, whose answers wrap
// what is not a tuple in one.
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const runner = require('node:test');

const Tarantool = require('tarantool-driver');

const { HOST, PORT, LOGIN, PASSWORD, CA_FILE } = process.env;

const connect = async (login = { username: LOGIN, password: PASSWORD }) => {
  const conn = new Tarantool({
    ...login,
    host: HOST,
    port: Number(PORT),
    tls: CA_FILE ? { ca: fs.readFileSync(CA_FILE) } : undefined,
    lazyConnect: true,
    retryStrategy: () => null, // a lost connection is an error here
  });
  await conn.connect();
  return conn;
};

const test = (name, fn) => runner.test(name, { timeout: 30_000 }, fn);

let conn;

test('connects and pings', async () => {
  conn = await connect();
  assert.equal(await conn.ping(), true);
});

test('login', async () => {
  await assert.rejects(connect({ username: 'worker', password: 'wrong' }));
  const guest = await connect({});
  assert.equal(await guest.ping(), true);
  const put = guest.call('queue.put', 0, 'login', 0, 60, 60, 0);
  if (LOGIN) {
    await assert.rejects(put, /Execute access to function 'queue.put' is denied for user 'guest'/);
  } else {
    assert.equal((await put)[0][2], 'ready');
  }
  guest.disconnect();
});

test('legacy: put, take and acknowledge', async () => {
  const [task] = await conn.call('queue.put', 0, 'mail', 0, 60, 10, 5, 'hello', { n: 1 });
  assert.match(task[0], /^[0-9a-f]{32}$/);
  assert.deepEqual(task.slice(1), ['mail', 'ready', 'hello', { n: 1 }]);
  const [id] = task;
  assert.deepEqual(await conn.call('queue.take', 0, 'mail', 0), [[id, 'mail', 'taken', 'hello', { n: 1 }]]);
  assert.deepEqual(await conn.call('queue.take', 0, 'mail', 0), []);
  assert.deepEqual(await conn.call('queue.ack', 0, id), [[id, 'mail', 'taken', 'hello', { n: 1 }]]);
  await assert.rejects(conn.call('queue.peek', 0, id), /Task not found/);
});

test('legacy: the rest of a life', async () => {
  const [[id]] = await conn.call('queue.put', 1, 'life', 0, 60, 10, 5, 'x');
  const status = async (name, ...args) => (await conn.call(`queue.${name}`, 1, id, ...args))[0][2];
  const take = async () => assert.equal((await conn.call('queue.take', 1, 'life', 5))[0][0], id);
  await take();
  assert.equal(await status('touch'), 'taken');
  assert.equal(await status('release'), 'ready');
  await take();
  assert.equal(await status('requeue'), 'ready');
  await take();
  assert.equal(await status('bury'), 'buried');
  assert.equal(await status('dig'), 'ready');
  await take();
  await status('bury');
  assert.deepEqual(await conn.call('queue.kick', 1, 'life', 2), [[1]]);
  await take();
  assert.equal(await status('release', 0.2), 'delayed');
  await take(); // waits for it
  assert.deepEqual(await conn.call('queue.done', 1, id, 'a', 'b'), [[id, 'life', 'done', 'a', 'b']]);
  const [meta] = await conn.call('queue.meta', 1, id);
  assert.equal(meta.length, 13);
  assert.deepEqual([meta[1], meta[2], meta[5], meta[9], meta[10], meta[11]], ['life', 'done', '5', 10e6, 2, 6]);
  assert.equal(await status('delete'), 'done');
});

test('legacy: order', async () => {
  const put = async (name, pri) => (await conn.call(`queue.${name}`, 2, 'order', 0, 60, 60, pri))[0][0];
  const low = await put('put', 1);
  const high = await put('put', 200);
  const high2 = await put('put', 200);
  const urgent = await put('urgent', 1);
  const got = [];
  for (let i = 0; i < 4; i += 1) got.push((await conn.call('queue.take', 2, 'order', 0))[0][0]);
  assert.deepEqual(got, [urgent, high, high2, low]);
  const [statistics] = await conn.call('queue.statistics', 2, 'order');
  const figures = {};
  for (let i = 0; i < statistics.length; i += 2) figures[statistics[i]] = statistics[i + 1];
  assert.equal(figures['space2.order.put'], '3');
  assert.equal(figures['space2.order.urgent'], '1');
  assert.equal(figures['space2.order.take'], '4');
  assert.equal(figures['space2.order.tasks.taken'], '4');
});

test('legacy: only the consumer', async () => {
  const other = await connect();
  const [[id]] = await conn.call('queue.put', 0, 'mine', 0, 60, 60, 5, 'x');
  await conn.call('queue.take', 0, 'mine', 0);
  await assert.rejects(other.call('queue.ack', 0, id), /Only consumer that took the task can it ack/);
  await conn.call('queue.ack', 0, id);
  // The tasks of a connection that ends are ready for others.
  const [[left]] = await conn.call('queue.put', 0, 'mine', 0, 60, 60, 5, 'y');
  await other.call('queue.take', 0, 'mine', 0);
  other.disconnect();
  assert.equal((await conn.call('queue.take', 0, 'mine', 10))[0][0], left);
});

test('modern: tubes', async () => {
  assert.deepEqual(await conn.call('queue.create_tube', 'tubes', 'fifo', {}), []);
  await assert.rejects(conn.call('queue.create_tube', 'tubes', 'fifo'), /Space 'tubes' already exists/);
  assert.deepEqual(await conn.call('queue.create_tube', 'tubes', 'fifo', { if_not_exists: true }), []);
  await assert.rejects(conn.call('queue.create_tube', 'bad', 'lifo'), /Unknown tube type lifo/);
  assert.deepEqual(await conn.eval('local name = ... ; return queue.tube[name] ~= nil', 'tubes'), [true]);
  assert.deepEqual(await conn.call('queue.tube.tubes:drop'), [[true]]);
  await assert.rejects(conn.call('queue.tube.tubes:put', 1), /Procedure 'queue.tube.tubes:put' is not defined/);
});

test('modern: a life', async () => {
  await conn.call('queue.create_tube', 'life', 'fifottl', { ttl: 60 });
  const call = (method, ...args) => conn.call(`queue.tube.life:${method}`, ...args);
  const data = { id: 1, list: [1, 'zwei', null, 2.5], deep: { a: true } };
  assert.deepEqual(await call('put', data, { pri: 1, ttr: 30 }), [[0, 'r', data]]);
  assert.deepEqual(await call('put', 'later', { delay: 100 }), [[1, '~', 'later']]);
  assert.deepEqual(await call('peek', 0), [[0, 'r', data]]);
  assert.deepEqual(await call('take', 0), [[0, 't', data]]);
  assert.deepEqual(await call('take', 0), []);
  assert.deepEqual(await call('touch', 0, 10), [[0, 't', data]]);
  assert.deepEqual(await call('release', 0, {}), [[0, 'r', data]]);
  await assert.rejects(call('ack', 0), /Task was not taken/);
  await call('take');
  assert.deepEqual(await call('bury', 0), [[0, '!', data]]);
  assert.deepEqual(await call('kick', 9), [[1]]);
  await call('take');
  assert.deepEqual(await call('ack', 0), [[0, '-', data]]);
  assert.deepEqual(await call('delete', 1), [[1, '-', 'later']]);
  await assert.rejects(call('delete', 1), /Task 1 not found/);
  const [[statistics]] = await conn.call('queue.statistics', 'life');
  assert.deepEqual(statistics.tasks, { taken: 0, buried: 0, ready: 0, done: 2, delayed: 0, total: 0 });
  assert.equal(statistics.calls.put, 2);
  assert.equal(statistics.calls.take, 3);
});

test('modern: a full tube', async () => {
  await conn.call('queue.create_tube', 'full', 'limfifottl', { capacity: 1 });
  assert.deepEqual(await conn.call('queue.tube.full:put', 'a'), [[0, 'r', 'a']]);
  assert.deepEqual(await conn.call('queue.tube.full:put', 'b', { timeout: 0.1 }), [[null]]);
});

test('modern: identify', async () => {
  const [[id]] = await conn.call('queue.identify');
  assert.equal(typeof id, 'string');
  assert.deepEqual(await conn.call('queue.state'), [['RUNNING']]);
});

test('eval', async () => {
  assert.deepEqual(await conn.eval('local name, type, cfg = ... ; queue.create_tube(name, type, cfg)', 'eval', 'fifo', {}), []);
  assert.deepEqual(await conn.eval('return queue.tube.eval:put(...)', 'x'), [[0, 'r', 'x']]);
  assert.deepEqual(await conn.eval("return queue.tube.eval:take(0)"), [[0, 't', 'x']]);
  await assert.rejects(conn.eval('return 1 + 1'), /only queue calls are supported/);
});

test('a waiting take leaves the connection free', async () => {
  await conn.call('queue.create_tube', 'wait', 'fifo', {});
  const modern = conn.call('queue.tube.wait:take', 20);
  const legacy = conn.call('queue.take', 0, 'wait', 20);
  assert.equal(await conn.ping(), true);
  await conn.call('queue.tube.wait:put', 'm');
  assert.deepEqual(await modern, [[0, 't', 'm']]);
  await conn.call('queue.put', 0, 'wait', 0, 60, 60, 0, 'l');
  assert.equal((await legacy)[0][3], 'l');
});

test('pipelined calls', async () => {
  await conn.call('queue.create_tube', 'pipe', 'fifo', {});
  const replies = await conn.pipeline()
    .call('queue.tube.pipe:put', 'a')
    .call('queue.put', 3, 'pipe', 0, 60, 60, 0, 'b')
    .call('queue.tube.pipe:take', 0)
    .call('queue.take', 3, 'pipe', 0)
    .call('queue.tube.pipe:ack', 7)
    .call('queue.tube.pipe:ack', 0)
    .exec();
  assert.deepEqual(replies.map(([error]) => error && error.message), [null, null, null, null, 'Task was not taken', null]);
  assert.deepEqual(replies[2][1], [[0, 't', 'a']]);
  assert.deepEqual(replies[3][1][0].slice(1), ['pipe', 'taken', 'b']);
  assert.deepEqual(replies[5][1], [[0, '-', 'a']]);

  const n = 300;
  const puts = await Promise.all(Array.from({ length: n }, (_, i) => conn.call('queue.tube.pipe:put', i)));
  assert.deepEqual(puts, Array.from({ length: n }, (_, i) => [[i + 1, 'r', i]]));
  const takes = await Promise.all(Array.from({ length: n }, () => conn.call('queue.tube.pipe:take', 1)));
  assert.deepEqual(takes, Array.from({ length: n }, (_, i) => [[i + 1, 't', i]]));
});

test('what there is not', async () => {
  await assert.rejects(conn.call('nope'), /Procedure 'nope' is not defined/);
  await assert.rejects(conn.insert(512, [1]), /Space '512' does not exist/);
  await assert.rejects(conn.select('users', 'primary', 1, 0, 'eq', [1]), /space is not defined/);
  await assert.rejects(conn.sql('select 1'), /SQL is not supported/);
  assert.equal(await conn.ping(), true);
});

test('disconnects', () => conn.disconnect());
