// jackd, a client of beanstalkd, against a running server at HOST and PORT. Its pauseTube sends no end of line, and a
// Buffer it puts as JSON: neither is of use with any server.
'use strict';

const assert = require('node:assert/strict');
const runner = require('node:test');

const Jackd = require('jackd');

const { HOST, PORT } = process.env;

const connect = async () => {
  const client = new Jackd();
  await client.connect({ host: HOST, port: Number(PORT) });
  return client;
};

const test = (name, fn) => runner.test(name, { timeout: 30_000 }, fn);

// yaml reads what a stats command has answered.
const yaml = (text) =>
  Object.fromEntries(
    text
      .split('\n')
      .filter((line) => line.includes(': '))
      .map((line) => line.split(': ', 2)),
  );

let producer;
let worker;

test('connects', async () => {
  producer = await connect();
  worker = await connect();
  assert.equal(await producer.use('mails'), 'mails');
  assert.equal(await producer.listTubeUsed(), 'mails');
  assert.equal(await worker.watch('mails'), 2);
  assert.equal(await worker.ignore('default'), 1);
  await assert.rejects(worker.ignore('mails'), /NOT_IGNORED/);
  assert.equal(await worker.listTubesWatched(), '---\n- mails\n');
});

test('puts, reserves and deletes', async () => {
  const id = await producer.put('hello');
  const job = await worker.reserve();
  assert.equal(job.id, id);
  assert.equal(job.payload.toString(), 'hello');
  await worker.touch(id);
  await worker.delete(id);
  await assert.rejects(worker.delete(id), /NOT_FOUND/);
});

test('carries objects and line ends', async () => {
  await producer.put({ a: [1, 'ü'] });
  let job = await worker.reserveWithTimeout(1);
  assert.deepEqual(JSON.parse(job.payload.toString()), { a: [1, 'ü'] });
  await worker.delete(job.id);
  await producer.put('\0\r\nü\r\n');
  job = await worker.reserveWithTimeout(1);
  assert.equal(job.payload.toString(), '\0\r\nü\r\n');
  await worker.delete(job.id);
});

test('waits until a job comes, or its time is up', async () => {
  await assert.rejects(worker.reserveWithTimeout(0), /TIMED_OUT/);
  const waiting = worker.reserveWithTimeout(20);
  const id = await producer.put('wake');
  assert.equal((await waiting).id, id);
  await worker.delete(id);
});

test('takes the most urgent first, and releases', async () => {
  const late = await producer.put('late', { priority: 10 });
  const soon = await producer.put('soon', { priority: 1 });
  assert.equal((await worker.reserve()).id, soon);
  await worker.release(soon, { priority: 20, delay: 0 });
  assert.equal((await worker.reserve()).id, late);
  assert.equal((await worker.reserve()).id, soon);
  await worker.delete(late);
  await worker.delete(soon);
});

test('tells that a deadline is near', async () => {
  const id = await producer.put('short', { ttr: 1 });
  assert.equal((await worker.reserve()).id, id);
  await assert.rejects(worker.reserve(), /DEADLINE_SOON/);
  await worker.delete(id);
});

test('buries, peeks and kicks', async () => {
  const id = await producer.put('bad');
  await worker.reserve();
  await worker.bury(id, 5);
  assert.equal((await producer.peekBuried()).id, id);
  assert.equal(await producer.kick(10), 1);
  assert.equal((await producer.peekReady()).payload.toString(), 'bad');
  const later = await producer.put('later', { delay: 3600 });
  assert.equal((await producer.peekDelayed()).id, later);
  await producer.kickJob(later);
  assert.equal((await worker.reserveJob(later)).id, later);
  await worker.delete(later);
  await producer.delete(id);
  await assert.rejects(producer.peek(id), /NOT_FOUND/);
  await assert.rejects(producer.peekReady(), /NOT_FOUND/);
});

test('tells statistics', async () => {
  const id = await producer.put('counted', { priority: 3, ttr: 7 });
  const job = yaml(await producer.statsJob(id));
  assert.deepEqual([job.id, job.tube, job.state, job.pri, job.ttr], [id, '"mails"', 'ready', '3', '7']);
  const tube = yaml(await producer.statsTube('mails'));
  assert.deepEqual([tube['current-jobs-ready'], tube['current-using'], tube['current-watching']], ['1', '1', '1']);
  const all = yaml(await producer.stats());
  assert.deepEqual([all.version, all['current-connections'], all.draining], ['"1.13"', '2', 'false']);
  assert.equal(await producer.listTubes(), '---\n- default\n- mails\n');
});

test('disconnects', async () => {
  await producer.quit();
  await worker.disconnect();
});
