// The charts of the overview, of a queue and of a type, and the moving figures.
(() => {
  "use strict";
  const box = document.getElementById("chart"), waitBox = document.getElementById("wait-chart"), runBox = document.getElementById("run-chart");
  if (!box || !window.uPlot) return;
  const live = box.dataset.period === "live";
  const keep = 600; // seconds that the live charts show

  const number = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
  const rate = (f) => (f === 0 ? "0" : f < 0.1 ? "<0.1" : f < 100 ? f.toFixed(1) : number.format(Math.round(f)));
  const span = (s) => (s < 0.0005 ? "0 s" : s < 1 ? (s * 1000).toFixed(0) + " ms" : s < 60 ? s.toFixed(s < 10 ? 1 : 0) + " s" : s < 3600 ? (s / 60).toFixed(0) + " min" : (s / 3600).toFixed(1) + " h");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // A time as ISO 8601 writes it, of this machine if that was chosen.
  const clockOf = (s) => new Date((window.millrace.local ? s - new Date(s * 1e3).getTimezoneOffset() * 60 : s) * 1e3).toISOString();

  // Each line is its name in the history, how to find it in a sample, its label, colour and dashes.
  const charts = [
    {
      box, height: 190, show: rate, least: 1, ticks: (v) => (Number.isInteger(v) ? number.format(v) : v.toFixed(1)),
      lines: [box.dataset.of === "type" ? ["fetched", (s) => s.rates.fetched, "fetched/s", "--in", []] : ["pushed", (s) => s.rates.pushed, "pushed/s", "--in", []], ["acked", (s) => s.rates.acked, "acked/s", "--out", [6, 3]], ["failed", (s) => s.rates.failed, "failed/s", "--bad", [2, 3]]],
    },
    {
      box: waitBox, height: 190, show: span, least: 0.005, ticks: span,
      lines: [["p50", (s) => (s.wait ? s.wait.p50_seconds : null), "half", "--in", []], ["p95", (s) => (s.wait ? s.wait.p95_seconds : null), "95 of 100", "--out", [6, 3]]],
    },
    {
      box: runBox, height: 190, show: span, least: 0.005, ticks: span,
      lines: [["run50", () => null, "half", "--in", []], ["run95", () => null, "95 of 100", "--out", [6, 3]]],
    },
  ].filter((c) => c.box).map((c) => ({ ...c, data: [[], ...c.lines.map(() => [])], plot: null }));

  const width = (c) => Math.max(200, c.box.clientWidth - 26);
  const draw = (c) => {
    if (c.plot) c.plot.destroy();
    c.box.textContent = "";
    const axis = { stroke: colour("--faint"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
    c.plot = new uPlot({
      width: width(c), height: c.height, tzDate: (s) => (window.millrace.local ? new Date(s * 1e3) : uPlot.tzDate(new Date(s * 1e3), "UTC")),
      scales: { x: { range: (u, low, high) => [Math.min(low, high - (live ? 60 : 600)), high] }, y: { range: (u, low, high) => [0, Math.max(c.least, (high || 0) * 1.1)] } },
      axes: [{ ...axis, space: 80, values: (u, at, i, space, step) => at.map((s) => clockOf(s).slice(...(step < 60 ? [11, 19] : step < 86400 ? [11, 16] : [5, 10]))) }, { ...axis, size: 60, values: (u, values) => values.map(c.ticks) }],
      series: [{ label: window.millrace.local ? "time" : "time (UTC)", value: (u, v) => (v == null ? "–" : clockOf(v).slice(5, 19).replace("T", " ")) },
        ...c.lines.map(([, , label, stroke, dash]) => ({ label, stroke: colour(stroke), width: 2, dash, spanGaps: true, points: { show: false }, value: (u, v) => (v == null ? "–" : c.show(v)) }))],
    }, c.data, c.box);
  };

  const show = (sample) => {
    document.querySelectorAll("[data-rate]").forEach((e) => { e.textContent = rate(sample.rates[e.dataset.rate]); });
    document.querySelectorAll("[data-wait]").forEach((e) => { e.textContent = sample.wait ? span(sample.wait[e.dataset.wait]) : "–"; });
    document.querySelectorAll("[data-count]").forEach((e) => { e.textContent = number.format(sample.counts[e.dataset.count] || 0); });
    document.querySelectorAll("span[data-live]").forEach((e) => { e.textContent = number.format(sample[e.dataset.live] || 0); });
    if (!live) return;
    const at = Date.parse(sample.at) / 1e3;
    for (const c of charts) {
      const times = c.data[0];
      if (times.length && at <= times[times.length - 1]) continue;
      times.push(at);
      c.lines.forEach(([, of], i) => c.data[i + 1].push(of(sample)));
      while (times.length > 2 && times[0] < at - keep) c.data.forEach((line) => line.shift());
      c.plot.setData(c.data);
      c.box.dataset.points = String(times.length);
    }
  };

  let source = null;
  const listen = () => {
    if (!box.dataset.live) return;
    const wanted = !window.millrace.paused && !document.hidden;
    if (!wanted && source) { source.close(); source = null; }
    if (wanted && !source) {
      source = new EventSource(box.dataset.live);
      source.addEventListener("sample", (e) => show(JSON.parse(e.data)));
    }
  };

  fetch(box.dataset.history).then((r) => (r.ok ? r.json() : { at: [] })).catch(() => ({ at: [] })).then((past) => {
    const from = live ? Date.now() / 1e3 - keep : 0;
    for (const c of charts) {
      past.at.forEach((at, i) => {
        if (at < from) return;
        c.data[0].push(at + past.seconds);
        c.lines.forEach(([name], n) => c.data[n + 1].push(past[name][i]));
      });
      draw(c);
      c.box.dataset.points = String(c.data[0].length);
    }
    listen();
  });
  addEventListener("resize", () => charts.forEach((c) => { if (c.plot) c.plot.setSize({ width: width(c), height: c.height }); }));
  document.addEventListener("millrace:theme", () => charts.forEach((c) => { if (c.plot) draw(c); }));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach(draw));
  document.addEventListener("visibilitychange", listen);
  document.addEventListener("millrace:paused", listen);
})();
