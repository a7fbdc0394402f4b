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
    await page.getByRole("link", { name: "thumbnails", exact: true }).click();
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
  await page.getByRole("link", { name: "elsewhere", exact: true }).click();
  await page.locator("details.danger summary").click();
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

test("respawn a dead job with new attempts", async () => {
  const page = await open(browser);
  await page.goto("/dead");
  await page.locator("tr[data-row] a.id").last().click();
  await page.getByLabel("Attempts").fill("7");
  await page.getByRole("button", { name: "Respawn" }).click();
  assert.equal(await notice(page), "Respawned 1 job.");
  assert.equal(await page.locator("h1 .state").textContent(), "ready");
  assert.match(await page.locator(".facts").first().textContent(), /Attempts\s*0 of 7/);
  await page.getByRole("button", { name: "Kill" }).click();
  await page.getByRole("button", { name: "Kill" }).click();
  await page.goto("/dead");
  assert.equal(await page.locator("[data-attempts]").isVisible(), false);
  await page.locator("input[name=job]").last().check();
  await page.locator("[name=action]").selectOption("respawn");
  await page.getByLabel("attempts", { exact: true }).fill("3");
  await check(page, "jobs");
  await page.getByRole("button", { name: "Do it" }).click();
  assert.equal(await notice(page), "Respawned 1 job.");
  await page.context().close();
});

test("stop an action on all jobs that match", async () => {
  const page = await open(browser);
  await page.goto("/jobs?queue=mass&state=ready");
  await page.locator("[name=scope]").selectOption({ label: "all 60,000 that match" });
  await page.locator("[name=action]").selectOption("bury");
  await page.getByRole("button", { name: "Do it" }).click();
  await page.getByRole("button", { name: "all that match" }).click();
  await page.waitForURL("**/bulk/*");
  await page.getByRole("button", { name: "Stop" }).click();
  assert.equal(await notice(page), "Stopped. What was done before stays.");
  assert.equal(await page.getByRole("button", { name: "Stop" }).count(), 0);
  const done = () => page.locator(".facts dd").first().textContent();
  const before = await done();
  await page.reload();
  assert.equal(await done(), before);
  assert.ok(Number(before.replaceAll(",", "")) < 60000, before);
  await check(page, "bulk");
  await page.context().close();
});

test("make, limit and remove a token", async () => {
  const page = await open(browser);
  await page.goto("/tokens");
  await page.getByLabel("For namespace").fill("shop");
  await page.getByLabel("What for").fill("orders <b>");
  await page.getByRole("button", { name: "Make a token" }).click();
  const token = await page.locator("#made").textContent();
  assert.match(token, /^[0-9A-Z]{26}$/);
  await check(page, "token");
  await page.goto("/tokens?namespace=shop");
  assert.equal(await rows(page), 1);
  assert.equal(await page.locator("tbody th code").textContent(), "…" + token.slice(-4));
  await page.getByText("Change").click();
  await page.getByLabel("Reads").fill("100");
  await check(page, "limits");
  await page.getByRole("button", { name: "Set limits" }).click();
  assert.match(await notice(page), /is limited/);
  assert.match(await page.locator("tbody").textContent(), /100 reads, any writes/);
  await page.getByText("Change").click();
  await page.getByRole("button", { name: "Take the limits away" }).click();
  assert.match(await notice(page), /has no limits/);
  await page.getByText("Change").click();
  await page.getByRole("button", { name: "Remove the token" }).click();
  assert.equal(await page.locator("h1").textContent(), "Remove the token?");
  await page.getByRole("button", { name: "Remove the token" }).click();
  assert.match(await notice(page), /^Removed token/);
  assert.match(await page.locator(".empty").textContent(), /No token matches/);
  await page.context().close();
});

test("go on in a list and back again", async () => {
  const page = await open(browser);
  await page.goto("/jobs?queue=mass");
  const first = () => page.locator("tr[data-row] a.id").first().textContent();
  const seen = [await first()];
  for (let i = 0; i < 2; i++) {
    await page.getByRole("link", { name: "Next page" }).click();
    await page.waitForURL(/trail=/);
    await page.waitForFunction((was) => document.querySelector("tr[data-row] a.id").textContent !== was, seen[i]);
    seen.push(await first());
  }
  await page.getByRole("link", { name: "Previous page" }).click();
  await page.waitForFunction((was) => document.querySelector("tr[data-row] a.id").textContent === was, seen[1]);
  await page.getByRole("link", { name: "Previous page" }).click();
  await page.waitForFunction((was) => document.querySelector("tr[data-row] a.id").textContent === was, seen[0]);
  assert.equal(await page.getByRole("link", { name: "Previous page" }).count(), 0);
  await page.context().close();
});
