// The Node client of Faktory, faktory-worker, against a running server. The
// environment says where that is: HOST, PORT, PASSWORD if it asks for one, and
// CA_FILE if it speaks TLS. Tests run one after the other, each on an empty server.
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const runner = require('node:test');

const faktory = require('faktory-worker');

const { HOST, PORT, PASSWORD, CA_FILE } = process.env;
const options = {
  host: HOST,
  port: Number(PORT),
  password: PASSWORD || undefined,
  tlsOptions: CA_FILE ? { ca: fs.readFileSync(CA_FILE) } : undefined,
};

const client = new faktory.Client(options);

// The tests run in the order in which they stand here.
const test = (name, fn) => runner.test(name, { timeout: 30_000 }, async () => {
  await client.flush();
  await fn();
});

const sets = async () => {
  const { scheduled, retries, dead } = (await client.info()).faktory.sets;
  return { scheduled, retries, dead };
};

test('connects', async () => {
  const other = await faktory.connect(options);
  assert.equal(await other.send(['FLUSH']), 'OK');
  await other.close();
});

test('a wrong password', async () => {
  const other = new faktory.Client({ ...options, password: 'wrong' });
  if (PASSWORD) {
    await assert.rejects(other.connect(), /ERR Invalid password/);
  } else {
    await other.connect(); // nobody asks for it
  }
  await other.close();
});

test('push, fetch and acknowledge', async () => {
  const args = [{ id: 333, size: 'thümb "x"' }, 9007199254740991, 1.5, null, [true, []]];
  const job = client.job('ResizeImage', ...args);
  job.custom = { locale: 'de', txid: 7 };
  job.reserveFor = 120;
  assert.equal(await job.push(), job.jid);

  const got = await client.fetch('default');
  assert.deepEqual(got.args, args);
  assert.deepEqual(got.custom, { locale: 'de', txid: 7 });
  assert.equal(got.jid, job.jid);
  assert.equal(got.jobtype, 'ResizeImage');
  assert.equal(got.queue, 'default');
  assert.equal(got.retry, 25);
  assert.equal(got.reserve_for, 120);
  assert.equal(got.priority, 5); // this client always sends one
  for (const at of [got.created_at, got.enqueued_at]) {
    assert.match(at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/);
  }
  assert.equal(got.failure, undefined);
  assert.equal(await client.ack(job.jid), 'OK');
  assert.equal((await client.info()).faktory.total_processed, 1);
});

test('an empty fetch waits two seconds', async () => {
  const start = Date.now();
  assert.equal(await client.fetch('default', 'other'), null);
  const took = Date.now() - start;
  assert.ok(took > 1850 && took < 4000, `${took} ms`);
});

test('a waiting fetch is woken', async () => {
  // The fetch may end before a slow machine has pushed the job. Then it was not woken, and shows nothing.
  for (let tries = 0; ; tries++) {
    assert.ok(tries < 10, 'no push came in time');
    const fetched = client.fetch('low', 'high');
    const job = client.job('Wake');
    job.queue = 'high';
    await job.push();
    const woken = await fetched;
    if (woken !== null) {
      assert.equal(woken.jid, job.jid);
      break;
    }
    assert.equal((await client.fetch('high')).jid, job.jid);
  }
});

test('priority', async () => {
  const jids = [];
  for (const priority of [1, 5, 9, 5]) {
    const job = client.job('Urgent', priority);
    job.priority = priority;
    jids.push(await job.push());
  }
  const order = [];
  for (let i = 0; i < jids.length; i += 1) {
    order.push((await client.fetch('default')).jid);
  }
  assert.deepEqual(order, [jids[2], jids[1], jids[3], jids[0]]);
});

test('bulk', async () => {
  const jobs = Array.from({ length: 50 }, (_, i) => client.job('Bulk', i));
  jobs[7].jid = 'short';
  const rejected = await client.pushBulk(jobs);
  assert.deepEqual(Object.keys(rejected), ['short']);
  assert.equal(rejected.short.reason, 'jobs must have a reasonable jid parameter');
  assert.equal(rejected.short.payload.args[0], 7);
  const info = await client.info();
  assert.equal(info.faktory.queues.default, 49);
  assert.equal((await client.fetch('default')).args[0], 0);
});

test('refusals', async () => {
  await assert.rejects(client.push({ jid: 'short', jobtype: 'A' }), /ERR jobs must have a reasonable jid parameter/);
  await assert.rejects(client.push({ jobtype: 'A', at: 'tomorrow' }), /ERR invalid timestamp for 'at': "tomorrow"/);
  await assert.rejects(client.push({ jobtype: 'A', queue: 'a b' }), /ERR cannot get "a b" queue/);
  await assert.rejects(client.fail('unknown-jid', new Error('x')), /ERR Job not found unknown-jid/);
  await assert.rejects(client.send(['NONSENSE']), /ERR unknown command NONSENSE/);
});

test('fail and retry', async () => {
  const jid = await client.job('Fragile', 1).push();
  await client.fetch('default');
  const error = new Error('it broke');
  error.code = 'EBROKEN';
  assert.equal(await client.fail(jid, error), 'OK');
  assert.deepEqual(await sets(), { scheduled: 0, retries: 1, dead: 0 });

  assert.equal(await client.retries.withJids(jid).requeue(), 'OK');
  const { failure } = await client.fetch('default');
  assert.equal(failure.message, 'it broke');
  assert.equal(failure.errtype, 'EBROKEN');
  assert.equal(failure.retry_count, 0);
  assert.equal(failure.remaining, 25);
  assert.equal(failure.backtrace[0], 'Error: it broke');
  const wait = (Date.parse(failure.next_at) - Date.parse(failure.failed_at)) / 1000;
  assert.ok(wait >= 15 && wait < 45, `${wait} s`);
  const { total_failures: failures, total_processed: processed } = (await client.info()).faktory;
  assert.deepEqual({ failures, processed }, { failures: 1, processed: 1 });
});

test('no retry', async () => {
  for (const retry of [0, -1]) {
    const job = client.job('Last', retry);
    job.retry = retry;
    await job.push();
    await client.fetch('default');
    await client.fail(job.jid, new Error('x'));
  }
  assert.deepEqual(await sets(), { scheduled: 0, retries: 0, dead: 1 });
});

test('scheduled', async () => {
  const at = new Date(Date.now() + 1500);
  const job = client.job('Later');
  job.at = at;
  await job.push();
  assert.deepEqual(await sets(), { scheduled: 1, retries: 0, dead: 0 });
  const got = await client.fetch('default');
  assert.ok(Date.now() >= at.getTime(), 'not before its time');
  assert.equal(got.jid, job.jid);
  assert.equal(got.at, at.toISOString());
});

test('mutate', async () => {
  const later = new Date(Date.now() + 3600 * 1000);
  const jids = [];
  for (const n of [0, 1, 2, 3]) {
    const job = client.job(`Type${n % 2}`, `uid:${n}`);
    job.at = later;
    jids.push(await job.push());
  }
  await client.scheduled.withJids(jids[0], jids[1]).kill();
  assert.deepEqual(await sets(), { scheduled: 2, retries: 0, dead: 2 });
  await client.dead.ofType('Type1').requeue();
  assert.equal((await client.fetch('default')).jid, jids[1]);
  await client.scheduled.matching('*uid:2*').discard();
  assert.deepEqual(await sets(), { scheduled: 1, retries: 0, dead: 1 });
  await client.scheduled.ofType('Type0').clear(); // a filter does not apply to clear
  await client.dead.discard();
  assert.deepEqual(await sets(), { scheduled: 0, retries: 0, dead: 0 });
});

test('info', async () => {
  await client.job('Info').push();
  const info = await client.info();
  assert.equal(info.server.faktory_version, '1.10.0');
  assert.match(info.server_utc_time, /^\d\d:\d\d:\d\d UTC$/);
  assert.deepEqual(info.faktory.queues, { default: 1 });
  assert.equal(info.faktory.total_enqueued, 1);
  assert.equal(info.faktory.total_queues, 1);
  assert.equal(info.faktory.tasks.Busy.size, 0);
  for (const name of ['uptime', 'connections', 'command_count', 'used_memory_mb']) {
    assert.ok(Number.isInteger(info.server[name]), name);
  }
});

test('worker', async () => {
  const done = [];
  let finished;
  const all = new Promise((resolve) => { finished = resolve; });
  const seen = (what) => {
    done.push(what);
    if (done.length === 4) finished();
  };
  const worker = new faktory.Worker({
    ...options,
    concurrency: 2,
    queues: ['critical', 'default'],
    labels: ['test'],
    registry: {
      Add: (a, b) => ({ job }) => seen(`${job.queue} ${a + b} ${job.custom ? job.custom.who : '-'}`),
      Break: async () => { throw new Error('on purpose'); },
    },
    middleware: [async (ctx, next) => { ctx.job.seen = true; await next(); }],
  });
  const failed = new Promise((resolve) => worker.on('fail', resolve));

  const critical = client.job('Add', 1, 2);
  critical.queue = 'critical';
  critical.custom = { who: 'me' };
  await client.job('Add', 3, 4).push();
  await critical.push();
  await worker.work();
  await client.job('Break').push();
  await client.job('Add', 5, 6).push();
  await client.job('Add', 7, 8).push();
  await all;
  const { job, error } = await failed;
  assert.equal(job.jobtype, 'Break');
  assert.equal(error.message, 'on purpose');
  assert.equal((await client.info()).faktory.tasks.Workers.size, 1);
  await worker.stop();

  assert.deepEqual(done, ['critical 3 me', 'default 7 -', 'default 11 -', 'default 15 -']);
  const { faktory: counters } = await client.info();
  assert.equal(counters.total_processed, 5);
  assert.equal(counters.total_failures, 1);
  assert.equal(counters.sets.retries, 1);
  assert.equal(counters.sets.working, 0);
});

test('heartbeat, quiet and terminate', async () => {
  const worker = new faktory.Client({ ...options, wid: 'w-1', poolSize: 2 });
  assert.equal(await worker.beat(), 'OK');
  await client.send(['BEAT', JSON.stringify({ wid: 'w-1', current_state: 'quiet' })]);
  assert.equal(await worker.beat(), 'quiet');
  await client.job('Waiting').push();
  assert.equal(await worker.fetch('default'), null); // although there is one
  await client.send(['BEAT', JSON.stringify({ wid: 'w-1', current_state: 'terminate' })]);
  assert.equal(await worker.beat(), 'terminate');
  await worker.close();
  await assert.rejects(client.send(['BEAT', '{"wid":"w-2"}']), /ERR unknown worker w-2/);
});

test('closes', () => client.close());
