// What the scripts share: the browser, and what every page must be like.
import assert from "node:assert/strict";
import fs from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

export const base = process.env.BASE;
const axe = fs.readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export async function launch(more = []) {
  return chromium.launch({
    executablePath: process.env.CHROMIUM,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", ...more],
  });
}

// open opens a page whose complaints are kept: errors of scripts, and what the content security policy has stopped.
export async function open(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1360, height: 900 }, baseURL: base, ...options });
  context.setDefaultTimeout(15000);
  const page = await context.newPage();
  page.complaints = [];
  page.on("pageerror", (e) => page.complaints.push(e.message));
  page.on("console", (m) => {
    // A page that says that something is not there has that status; the browser notes it.
    if (m.type() === "error" && !/status of (401|403|404|409)/.test(m.text())) page.complaints.push(m.text());
  });
  page.on("dialog", (d) => { page.complaints.push("dialog " + d.message()); d.dismiss(); });
  return page;
}

// check asserts that a page is accessible, fits the window, and has nothing to complain about.
export async function check(page, name, { axed = true } = {}) {
  const found = !axed ? { violations: [] } : await page.evaluate(axe + "; axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] })");
  assert.deepEqual(found.violations.map((v) => [v.id, v.nodes.map((n) => n.html)]), [], name + ": axe");
  const wide = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
  assert.ok(wide <= 0, `${name}: ${wide} pixels too wide`);
  assert.deepEqual(page.complaints, [], name);
}
