// A server that asks for a password.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { check, launch, open } from "./kit.mjs";

let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

async function logIn(page, password) {
  await page.getByLabel("Password or token").fill(password);
  await page.getByRole("button", { name: "Log in" }).click();
}

for (const colorScheme of ["light", "dark"]) {
  test(`an operator logs in, ${colorScheme}`, async () => {
    const page = await open(browser, { colorScheme });
    await page.goto("/jobs?queue=reports");
    await page.waitForURL("**/login?*");
    await check(page, "login");
    await logIn(page, "wrong");
    assert.equal(await page.getByRole("alert").textContent(), "This password is not right.");
    await check(page, "login, wrong");
    await logIn(page, process.env.PASSWORD);
    await page.waitForURL("**/jobs?queue=reports");
    assert.equal(await page.getByRole("button", { name: "Do it" }).count(), 1);
    await check(page, "jobs");
    await page.getByRole("button", { name: "Log out" }).click();
    await page.waitForURL("**/login");
    await page.goto("/queues");
    await page.waitForURL("**/login?*");
    await page.context().close();
  });
}

test("who may only look has no buttons", async () => {
  const page = await open(browser);
  await page.goto("/");
  await logIn(page, process.env.READ_PASSWORD);
  await page.waitForFunction(() => document.querySelector("#chart .uplot"));
  for (const path of ["/jobs", "/queues", "/queue?namespace=default&queue=reports", "/workers"]) {
    await page.goto(path);
    assert.equal(await page.locator("form[method=post]").count(), 1, path + ": only the way out");
    await check(page, path);
  }
  await page.context().close();
});
