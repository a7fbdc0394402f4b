// Web pages of other sites against every port of a server without a login: on another port of this machine, by a foreign name, and by
// a foreign name that leads to the very port (DNS rebinding). Nothing may come of it.
import assert from "node:assert/strict";
import http from "node:http";
import { after, before, test } from "node:test";
import { base, launch } from "./kit.mjs";

const evil = "evil.example"; // the browser is told that it is this machine
const planted = "planted"; // the queue that every attack pushes to

let browser, site, ports;

before(async () => {
  // Without what this browser itself does against pages that ask for this machine: others do not.
  browser = await launch([`--host-resolver-rules=MAP ${evil} 127.0.0.1`, "--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebSockets"]);
  site = http.createServer((_, w) => w.end("<!doctype html><title>another site</title>"));
  await new Promise((up) => site.listen(0, "127.0.0.1", up));
  ports = {};
  for (const c of (await ask("/api/v1/connections")).connections) ports[c.protocol] = c.addresses[0].split(":").pop();
  await lmstfy("PUT", "mine", "body");
});

after(async () => {
  await browser.close();
  site.close();
});

async function ask(path) {
  const r = await fetch(base + path);
  assert.equal(r.status, 200, path);
  return r.json();
}

async function lmstfy(method, queue, body) {
  const r = await fetch(`http://127.0.0.1:${ports.lmstfy}/api/ns/${queue}`, { method, body });
  assert.equal(r.status, 201);
}

// packed is a call of queue.put as IPROTO has it, behind bytes that are empty packets: wherever the server takes the next packet
// to begin, it comes to the call.
function packed() {
  const text = (s) => [0xa0 + s.length, ...Buffer.from(s)];
  const args = [0x97, 0x00, ...text(planted), 0x00, 0x00, 0x00, 0x7f, ...text("x")];
  const call = [0x82, 0x00, 0x0a, 0x01, 0x01, 0x82, 0x22, ...text("queue.put"), 0x21, ...args];
  return Buffer.concat([Buffer.alloc(4096), Buffer.from([0xce, 0, 0, 0, call.length, ...call])]).toString("latin1");
}

// bodies are what would push a job if the server got to read it, by protocol.
const bodies = {
  masenko: `\r\nPUSH {"name":"n","queue":"${planted}"}\r\n`,
  workq: `\r\nadd 6ba7b810-9dad-41d1-80b4-00c04fd430c8 ${planted} 60000 60000 1\r\nx\r\n`,
  faktory: `\r\nHELLO {"v":2}\r\nPUSH {"jid":"1234567890","jobtype":"j","args":[],"queue":"${planted}"}\r\n`,
  tarantool: packed(),
  "tarantool tarantool15": packed(),
  lmstfy: "x",
  "lmstfy admin": "description=x",
  web: '{"jobs":[{}]}',
};

// paths are what changes or tells something, by protocol; methods go with them.
const paths = {
  lmstfy: [["GET", "/api/ns/mine"], ["PUT", `/api/ns/${planted}`], ["DELETE", "/api/ns/mine"]],
  "lmstfy admin": [["POST", "/token/ns?description=x"], ["GET", "/pools"], ["GET", "/debug/pprof/heap"]],
  web: [["POST", `/api/v1/namespaces/ns/queues/${planted}/jobs`], ["GET", "/api/v1/jobs"], ["POST", "/api/v1/backups"], ["GET", "/metrics"], ["GET", "/api/v1/events"]],
};

const attempts = (protocol) => paths[protocol] ?? [["POST", "/"], ["PUSH", "/"], ["GET", "/"]];

// attack sends requests as the page that is open can, and returns what the page learns of each.
async function attack(page, origin, protocol, modes) {
  const learned = [];
  for (const [method, path] of attempts(protocol)) {
    for (const mode of modes) {
      if (mode === "no-cors" && !["GET", "POST"].includes(method)) continue;
      learned.push(await page.evaluate(async ({ url, method, mode, body, type }) => {
        const bytes = method === "GET" ? undefined : Uint8Array.from(body, (c) => c.charCodeAt(0));
        try {
          const r = await fetch(url, { method, mode, body: bytes, headers: bytes && { "Content-Type": type }, signal: AbortSignal.timeout(10000) });
          return { url, status: r.status, text: r.type === "opaque" ? "" : await r.text() };
        } catch (e) {
          return { url, status: 0, text: "", error: String(e) };
        }
      }, { url: origin + path, method, mode, body: bodies[protocol], type: mode === "no-cors" ? "text/plain" : "application/json" }));
    }
  }
  return learned;
}

// submit sends a form to a port in a window of its own.
async function submit(page, url, body) {
  const made = page.context().waitForEvent("page");
  await page.evaluate(({ url, body }) => {
    const form = Object.assign(document.createElement("form"), { method: "post", action: url, enctype: "text/plain", target: "_blank" });
    form.append(Object.assign(document.createElement("textarea"), { name: "a", value: body }));
    document.body.append(form);
    form.submit();
  }, { url, body });
  const opened = await made;
  await opened.waitForLoadState().catch(() => {}); // the server may close the connection
  await opened.close();
}

// untouched asserts that nothing was pushed and nothing taken.
async function untouched(name) {
  const { queues } = await ask("/api/v1/queues");
  assert.deepEqual(queues.map((q) => q.name), ["mine"], name);
  assert.equal(queues[0].counts.ready, 1, name + ": the job is still there");
  assert.deepEqual((await ask("/api/v1/tokens")).tokens, [], name);
}

// foreign returns how many connections a protocol has closed because of what they spoke.
async function foreign(listener) {
  const protocol = listener.split(" ").pop();
  const metrics = await (await fetch(base + "/metrics")).text();
  return Number(metrics.match(new RegExp(`rejected_total\\{protocol="${protocol}",reason="foreign"\\} (\\d+)`))[1]);
}

for (const [name, host] of [["another port of this machine", "127.0.0.1"], ["another site", evil]]) {
  test(`a page of ${name}`, async () => {
    const page = await browser.newPage();
    const answers = new Map();
    page.on("response", (r) => answers.set(r.url(), r.status()));
    for (const protocol of Object.keys(bodies)) {
      await page.goto(`http://${host}:${site.address().port}/`);
      const origin = `http://127.0.0.1:${ports[protocol]}`;
      for (const seen of await attack(page, origin, protocol, ["cors", "no-cors"])) {
        assert.equal(seen.status, 0, `${protocol}: the page learns something of ${seen.url}`);
        if (paths[protocol] && answers.has(seen.url)) assert.equal(answers.get(seen.url), 403, seen.url);
      }
      await page.evaluate((url) => new Promise((done) => {
        document.body.append(Object.assign(new Image(), { src: url, onerror: done, onload: done }));
      }), origin + attempts(protocol).find(([method]) => method === "GET")[1]);
      await submit(page, origin + "/", bodies[protocol]);
      await untouched(protocol);
    }
    await page.context().close();
    for (const protocol of ["masenko", "workq", "faktory", "tarantool"]) assert.ok(await foreign(protocol) > 0, protocol + ": the attacks have arrived");
  });
}

test("a page whose name leads to the port", async () => {
  const page = await browser.newPage();
  for (const protocol of Object.keys(bodies)) {
    const origin = `http://${evil}:${ports[protocol]}`;
    // As the attacker's own server would have answered before the name led elsewhere.
    await page.route(origin + "/page", (route) => route.fulfill({ contentType: "text/html", body: "<!doctype html><title>rebound</title>" }));
    await page.goto(origin + "/page");
    const arrived = paths[protocol] ? 0 : await foreign(protocol);
    for (const seen of await attack(page, origin, protocol, ["same-origin"])) {
      assert.equal(seen.status, paths[protocol] ? 421 : 0, seen.url + " " + seen.error);
      if (paths[protocol]) assert.match(seen.text, /listen\.hosts/);
    }
    await untouched(protocol);
    if (!paths[protocol]) assert.ok(await foreign(protocol) > arrived, protocol + ": the attacks have arrived");
  }
  await page.context().close();
});

test("a link of another site leads to the web UI", async () => {
  const page = await browser.newPage();
  await page.goto(`http://${evil}:${site.address().port}/`);
  await page.evaluate((url) => { document.body.innerHTML = `<a href="${url}">jobs</a>`; }, base + "/queues");
  await page.getByText("jobs").click();
  await page.waitForURL(base + "/queues");
  assert.equal(await page.getByRole("link", { name: "mine" }).count() > 0, true);
  await page.context().close();
});
