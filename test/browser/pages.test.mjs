// Every page, light and dark, wide and narrow.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { check, launch, open } from "./kit.mjs";

let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

const pages = {
  overview: "/", "overview-hour": "/?period=hour", "overview-day": "/?period=day", "overview-month": "/?period=month", queues: "/queues", "queues-none": "/queues?name=nowhere",
  queue: "/queue?namespace=default&queue=mailers",
  jobs: "/jobs?state=ready&state=retrying&state=dead", "jobs-body": "/jobs?body=template&queue=mailers", "jobs-none": "/jobs?queue=none",
  failures: "/failures", types: "/types", "types-hour": "/types?period=hour", type: "/type?type=SendEmail", "type-none": "/type?type=%3Cb%3Enothing", "worker-gone": "/worker?holder=%3Cb%3Enobody", activity: "/activity", push: "/push", help: "/help", running: "/running", scheduled: "/scheduled", retries: "/retries", dead: "/dead",
  workers: "/workers", connections: "/connections", batches: "/batches?namespace=default", tokens: "/tokens", "tokens-none": "/tokens?namespace=nowhere", bulk: "/bulk",
  storage: "/storage", settings: "/settings", "no-job": "/job?namespace=default&id=9999999", "no-page": "/nowhere",
};

for (const colorScheme of ["light", "dark"]) {
  for (const [size, width] of [["wide", 1360], ["narrow", 390]]) {
    test(`every page, ${colorScheme}, ${size}`, async () => {
      const axed = (colorScheme === "light") === (size === "wide"); // each scheme and each size once
      const page = await open(browser, { colorScheme, viewport: { width, height: 900 } });
      const visit = async (name, address) => {
        await page.goto(address);
        if (name.startsWith("overview") || name.startsWith("type-") || name === "type") await page.waitForFunction(() => document.querySelector("#chart .uplot"));
        await check(page, name, { axed });
      };
      for (const [name, address] of Object.entries(pages)) await visit(name, address);
      for (const [name, list] of [["job", "/dead"], ["job-running", "/running"], ["job-scheduled", "/scheduled"], ["job-done", "/jobs?state=done"]]) {
        await page.goto(list);
        await visit(name, await page.locator("tr[data-row] a.id").first().getAttribute("href"));
      }
      await page.goto("/workers");
      await visit("worker", await page.locator("tr[data-row] th a").first().getAttribute("href"));
      assert.ok(await page.locator("tr[data-row]").count() > 0, "the worker has jobs");
      await page.goto("/jobs?queue=after");
      await visit("job-blocked", await page.locator("tr[data-row] a.id").first().getAttribute("href"));
      assert.match(await page.getByRole("region", { name: "What it waits for" }).textContent(), /<b>Before/);
      await page.goto("/batches?namespace=default");
      await visit("batch", await page.locator("tr[data-row] a.id").first().getAttribute("href"));
      assert.equal(await page.locator("tr[data-row]").count(), 3, "the jobs of the batch");
      await page.context().close();
    });
  }
}

test("the overview moves by itself", async () => {
  const page = await open(browser);
  await page.goto("/");
  await page.waitForFunction(() => document.querySelector("#chart .uplot canvas"));
  const points = () => page.evaluate(() => Number(document.querySelector("#chart").dataset.points));
  const first = await points();
  await page.waitForFunction((n) => Number(document.querySelector("#chart").dataset.points) > n + 1, first);
  await page.waitForFunction(() => document.querySelector("[data-rate=pushed]").textContent !== "0");
  await page.waitForFunction(() => /default/.test(document.querySelector("#live").textContent));
  await page.keyboard.press("p");
  assert.equal(await page.locator("#updates").getAttribute("aria-pressed"), "true");
  const paused = await points();
  await page.reload();
  assert.equal(await page.locator("#updates").textContent(), "Updates are paused");
  await page.keyboard.press("p");
  await page.waitForFunction((n) => Number(document.querySelector("#chart").dataset.points) > n - 5, paused);
  await check(page, "overview");
});

test("the keyboard is enough", async () => {
  const page = await open(browser);
  await page.goto("/jobs?queue=thumbnails");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the content");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("k");
  const rows = await page.locator("tr[data-row]").all();
  assert.ok(await rows[0].evaluate((row) => row === document.activeElement), "the first row has the focus");
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  assert.equal(await page.locator(".chosen").textContent(), "1 chosen");
  assert.ok(await rows[1].locator("input").isChecked());
  await page.keyboard.press("?");
  await page.locator("dialog[open]").waitFor();
  await check(page, "keys");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Enter");
  await page.waitForURL("**/job?*");
  await page.keyboard.press("/");
  await page.keyboard.type("mail-0003");
  await page.keyboard.press("Enter");
  await page.waitForURL("**/jobs?ref=mail-0003");
  assert.equal(await page.locator("tr[data-row]").count(), 1);
  await page.keyboard.press("g");
  await page.keyboard.press("q");
  await page.waitForURL("**/queues");
  await page.context().close();
});

test("what jobs hold is shown and never runs", async () => {
  const page = await open(browser);
  await page.goto("/jobs?queue=reports");
  assert.equal(await page.locator("tr[data-row]").count(), 4);
  const jobs = await page.locator("tr[data-row] a.id").evaluateAll((links) => links.map((a) => a.getAttribute("href")));
  let hostile = 0;
  for (const job of jobs) {
    for (const as of ["", "&as=text", "&as=hex"]) {
      await page.goto(job + as);
      const body = await page.locator("pre.body").textContent();
      if (body.includes("<script>document.title=")) hostile++;
      assert.notEqual(await page.title(), "owned");
      await check(page, job + as);
    }
  }
  assert.ok(hostile >= 2, "the hostile body is shown as text");
  await page.context().close();
});

test("the theme, the time and the order of queues can be chosen", async () => {
  const page = await open(browser, { colorScheme: "light", timezoneId: "Asia/Tokyo" });
  await page.goto("/queues");
  const ground = () => page.evaluate(() => getComputedStyle(document.body.parentElement).backgroundColor);
  const light = await ground();
  const theme = page.locator("#theme");
  await theme.click();
  assert.equal(await theme.textContent(), "Theme: light");
  await theme.click();
  assert.equal(await theme.textContent(), "Theme: dark");
  assert.notEqual(await ground(), light);
  await page.reload(); // the server knows it by now
  assert.notEqual(await ground(), light);
  await check(page, "queues, dark by choice");

  const clock = () => page.locator("footer time").textContent();
  assert.match(await clock(), / UTC$/);
  const utc = Date.parse((await clock()).replace(" UTC", "Z").replace(" ", "T"));
  await page.locator("#zone").click();
  assert.match(await clock(), / here$/);
  const here = Date.parse((await clock()).replace(" here", "Z").replace(" ", "T"));
  assert.equal(here - utc, 9 * 3600e3);

  const names = () => page.locator("tr[data-row] th a").allTextContents();
  const queue = page.getByRole("button", { name: "Queue", exact: true });
  await queue.focus();
  await page.keyboard.press("Enter");
  const up = await names();
  assert.deepEqual(up, [...up].sort());
  await queue.click();
  assert.deepEqual(await names(), [...up].reverse());
  await page.getByLabel("Name contains").pressSequentially(up[0]);
  await page.waitForFunction(() => document.querySelectorAll("tr[data-row]").length === 1);
  assert.deepEqual(await names(), [up[0]]);
  await check(page, "queues, filtered");
  await page.context().close();
});

test("narrow screens have a menu", async () => {
  const page = await open(browser, { viewport: { width: 390, height: 800 } });
  await page.goto("/queues");
  const pages = page.getByRole("navigation", { name: "Pages" });
  assert.equal(await pages.isVisible(), false);
  await page.getByRole("button", { name: "Menu" }).focus();
  await page.keyboard.press("Enter");
  assert.equal(await page.getByRole("button", { name: "Menu" }).getAttribute("aria-expanded"), "true");
  await check(page, "menu");
  await pages.getByRole("link", { name: /Failures/ }).click();
  await page.waitForURL("**/failures");
  await page.context().close();
});
