// What an operator does, with scripts and without.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { check, launch, open } from "./kit.mjs";

let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

const notice = (page) => page.locator(".notice").textContent();
const rows = (page) => page.locator("tr[data-row]").count();

test("retry, run and kill", async () => {
  const page = await open(browser);
  for (const [list, button, now] of [["/retries", "Retry now", "ready"], ["/scheduled", "Run now", "ready"], ["/jobs?state=ready&queue=mailers", "Kill", "dead"]]) {
    await page.goto(list);
    await page.locator("tr[data-row] a.id").first().click();
    await page.getByRole("button", { name: button }).click();
    if (button === "Kill") await page.getByRole("button", { name: button }).click();
    await page.locator(".notice").waitFor();
    assert.equal(await page.locator("h1 .state").textContent(), now);
  }
  await page.context().close();
});

for (const javaScriptEnabled of [true, false]) {
  const way = javaScriptEnabled ? "with scripts" : "without scripts";

  test(`pause and resume a queue, ${way}`, async () => {
    const page = await open(browser, { javaScriptEnabled });
    await page.goto("/queues?name=thumbnails");
    await page.getByRole("button", { name: "Pause thumbnails" }).click();
    assert.equal(await notice(page), "Queue thumbnails is paused.");
    assert.equal(await page.locator(".badge").textContent(), "paused");
    await page.getByRole("link", { name: "thumbnails" }).click();
    await page.getByRole("button", { name: "Resume" }).click();
    assert.equal(await notice(page), "Queue thumbnails goes on.");
    assert.equal(await page.locator(".badge").count(), 0);
    if (javaScriptEnabled) await check(page, "queue");
    await page.context().close();
  });

  test(`bury chosen jobs and kick them, ${way}`, async () => {
    const page = await open(browser, { javaScriptEnabled });
    await page.goto("/jobs?queue=thumbnails&state=ready");
    for (const i of [0, 1]) await page.locator("input[name=job]").nth(i).check();
    await page.locator("[name=action]").selectOption("bury");
    await page.getByRole("button", { name: "Do it" }).click();
    assert.equal(await notice(page), "Buried 2 jobs.");
    await page.goto("/jobs?queue=thumbnails&state=buried");
    assert.equal(await rows(page), 2);
    for (const i of [0, 1]) await page.locator("input[name=job]").nth(i).check();
    await page.locator("[name=action]").selectOption("kick");
    await page.getByRole("button", { name: "Do it" }).click();
    assert.equal(await notice(page), "Kicked 2 jobs.");
    await page.goto("/jobs?queue=thumbnails&state=buried");
    assert.match(await page.locator(".empty").textContent(), /No job matches/);
    await page.context().close();
  });

  test(`delete a job, after a question, ${way}`, async () => {
    const page = await open(browser, { javaScriptEnabled });
    await page.goto("/dead");
    const before = await rows(page);
    await page.locator("tr[data-row] a.id").first().click();
    const job = page.url();
    await page.getByRole("button", { name: "Delete" }).click();
    assert.equal(await page.locator("h1").textContent(), "Delete 1 job?");
    if (javaScriptEnabled) await check(page, "question");
    await page.getByRole("link", { name: "Back, do nothing" }).click();
    await page.goto(job);
    await page.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("button", { name: "Delete" }).click();
    assert.equal(await notice(page), "Deleted 1 job.");
    await page.goto(job);
    assert.equal(await page.locator("h1").textContent(), "There is no such thing");
    await page.goto("/dead");
    assert.equal(await rows(page), before - 1);
    await page.context().close();
  });

  test(`act on all jobs that match, ${way}`, async () => {
    const page = await open(browser, { javaScriptEnabled });
    await page.goto("/jobs?queue=bulk&state=" + (javaScriptEnabled ? "ready" : "buried"));
    assert.equal(await rows(page), 50);
    await page.locator("[name=scope]").selectOption({ label: "all 500 that match" });
    await page.locator("[name=action]").selectOption(javaScriptEnabled ? "bury" : "kick");
    await page.getByRole("button", { name: "Do it" }).click();
    await page.getByRole("button", { name: "all that match" }).click();
    await page.waitForURL("**/bulk/*");
    await page.getByText("done", { exact: true }).waitFor();
    assert.match(await page.locator(".facts").textContent(), /Done\s*500/);
    if (javaScriptEnabled) await check(page, "bulk");
    await page.reload();
    assert.match(await page.locator(".facts").textContent(), /Done\s*500/);
    await page.context().close();
  });
}

test("move a job to another queue", async () => {
  const page = await open(browser);
  await page.goto("/jobs?queue=thumbnails&state=ready");
  await page.locator("tr[data-row] a.id").first().click();
  await page.getByLabel("Queue").fill("elsewhere");
  await page.getByRole("button", { name: "Move to another queue" }).click();
  assert.equal(await notice(page), "Moved 1 job.");
  await page.getByRole("link", { name: "elsewhere" }).click();
  await page.getByRole("button", { name: "Remove the queue" }).click();
  await page.getByRole("button", { name: "Remove the queue" }).click();
  assert.equal(await notice(page), "Removed queue elsewhere with 1 job.");
  await page.context().close();
});

test("a job that has moved on is left alone", async () => {
  const page = await open(browser);
  await page.goto("/dead");
  await page.locator("tr[data-row] a.id").first().click();
  const other = await page.context().newPage();
  await other.goto(page.url());
  await other.getByRole("button", { name: "Retry now" }).click();
  await other.locator(".notice").waitFor();
  await page.getByRole("button", { name: "Retry now" }).click();
  assert.equal(await page.locator("h1").textContent(), "Not everything was done");
  assert.match(await page.locator("tbody").textContent(), /nothing was done/);
  await check(page, "outcome");
  await page.context().close();
});

test("quiet a worker", async () => {
  const page = await open(browser);
  await page.goto("/workers");
  await page.getByRole("button", { name: "Quiet 4qpc2443vpvai" }).click();
  assert.match(await notice(page), /^Told 1 worker to be quiet/);
  assert.match(await page.locator("tbody").textContent(), /quiet/);
  await page.getByRole("button", { name: "Stop all" }).click();
  assert.equal(await page.locator("h1").textContent(), "Tell all workers to stop?");
  await page.context().close();
});

test("queues follow what happens elsewhere", async () => {
  const page = await open(browser), other = await open(browser);
  await page.goto("/queues?name=thumbnails");
  await other.goto("/queues?name=thumbnails");
  await other.getByRole("button", { name: "Pause thumbnails" }).click();
  await page.locator(".badge").waitFor();
  await other.getByRole("button", { name: "Resume thumbnails" }).click();
  await page.locator(".badge").waitFor({ state: "detached" });
  await check(page, "queues");
});
