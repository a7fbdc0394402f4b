// The pictures of the documents, of a demo: node screenshots.mjs PROGRAM DIRECTORY. It needs what make browser installs.
import { spawn } from "node:child_process";
import path from "node:path";
import process from "node:process";
import { launch, open } from "./kit.mjs";

const [program, dir] = process.argv.slice(2);
process.env.CHROMIUM ||= "/usr/bin/chromium";

// What pictures are of: the address, or how to get there; the schemes, and whether narrow as well.
const first = (list) => async (page) => {
  await page.goto(list);
  await page.goto(await page.locator("tr[data-row] a.id").first().getAttribute("href"));
};
const pictures = {
  overview: ["/?period=hour", ["light", "dark"], true],
  queues: ["/queues", ["light"]],
  queue: ["/queue?namespace=default&queue=mail", ["light"]],
  failures: ["/failures", ["light", "dark"]],
  jobs: ["/jobs?state=ready&state=running&state=retrying", ["light"], true],
  job: [first("/dead"), ["light"]],
  type: ["/type?type=SendReceipt", ["light"]],
  types: ["/types?period=hour", ["light"]],
  batch: [first("/batches?namespace=default"), ["light"]],
  workers: ["/workers", ["light"]],
  cron: ["/cron", ["light"]],
};

// demo starts one, and returns where its pages are once its hour is staged.
function demo() {
  const child = spawn(program, ["demo", "--web-addr", "127.0.0.1:0"], { stdio: ["ignore", "pipe", "inherit"] });
  const staged = new Promise((resolve, reject) => {
    let text = "";
    child.stdout.on("data", (part) => {
      text += part;
      if (/^staged/m.test(text)) resolve(/^web +(http:\/\/[0-9.:]+)/m.exec(text)[1]);
    });
    child.on("exit", (code) => reject(new Error(`the demo ended with ${code}`)));
  });
  return { child, staged };
}

const { child, staged } = demo();
try {
  const base = await staged;
  const browser = await launch();
  for (const [name, [where, schemes, narrow]] of Object.entries(pictures)) {
    for (const colorScheme of schemes) {
      for (const width of narrow ? [1280, 390] : [1280]) {
        const page = await open(browser, { baseURL: base, colorScheme, viewport: { width, height: 800 } });
        await (typeof where === "string" ? page.goto(where) : where(page));
        if (await page.locator("#chart").count()) await page.waitForFunction(() => Number(document.querySelector("#chart").dataset.points) > 30);
        await page.screenshot({ path: path.join(dir, `${name}-${colorScheme}${width < 600 ? "-narrow" : ""}.png`) });
        await page.context().close();
      }
    }
  }
  await browser.close();
} finally {
  child.removeAllListeners("exit");
  child.kill("SIGTERM");
}
