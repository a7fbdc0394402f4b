// The chart and the moving figures of the overview.
(() => {
  "use strict";
  const box = document.getElementById("chart");
  if (!box || !window.uPlot) return;
  const live = box.dataset.period === "live";
  const keep = 600; // seconds that the live chart shows
  const lines = [["pushed", "in/s", "--in", []], ["acked", "out/s", "--out", [6, 3]], ["failed", "failed/s", "--bad", [2, 3]]];
  const data = [[], [], [], []];
  let plot = null;

  const number = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
  const rate = (f) => (f === 0 ? "0" : f < 0.1 ? "<0.1" : f < 100 ? f.toFixed(1) : number.format(Math.round(f)));
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const width = () => Math.max(200, box.clientWidth - 26);

  const draw = () => {
    if (plot) plot.destroy();
    box.textContent = "";
    const axis = { stroke: colour("--faint"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
    plot = new uPlot({
      width: width(), height: 260, tzDate: (s) => uPlot.tzDate(new Date(s * 1e3), "UTC"),
      scales: { x: { range: (u, low, high) => [Math.min(low, high - (live ? 60 : 600)), high] }, y: { range: (u, low, high) => [0, Math.max(1, (high || 0) * 1.1)] } },
      axes: [{ ...axis, space: 80, values: (u, at, i, space, step) => at.map((s) => new Date(s * 1e3).toISOString().slice(...(step < 60 ? [11, 19] : step < 86400 ? [11, 16] : [5, 10]))) }, { ...axis, size: 60, values: (u, values) => values.map((v) => number.format(v) === "0" && v ? v.toFixed(1) : number.format(v)) }],
      series: [{ label: "time (UTC)", value: (u, v) => (v == null ? "–" : new Date(v * 1e3).toISOString().slice(5, 19).replace("T", " ")) },
        ...lines.map(([, label, stroke, dash]) => ({ label, stroke: colour(stroke), width: 2, dash, points: { show: false }, value: (u, v) => (v == null ? "–" : rate(v)) }))],
    }, data, box);
  };

  const show = (sample) => {
    document.querySelectorAll("[data-rate]").forEach((e) => { e.textContent = rate(sample.rates[e.dataset.rate]); });
    document.querySelectorAll("[data-count]").forEach((e) => { e.textContent = number.format(sample.counts[e.dataset.count] || 0); });
    document.querySelectorAll("span[data-live]").forEach((e) => { e.textContent = number.format(sample[e.dataset.live] || 0); });
    if (!live) return;
    const at = Date.parse(sample.at) / 1e3;
    if (data[0].length && at <= data[0][data[0].length - 1]) return;
    data[0].push(at);
    lines.forEach(([name], i) => data[i + 1].push(sample.rates[name]));
    while (data[0].length > 2 && data[0][0] < at - keep) data.forEach((line) => line.shift());
    plot.setData(data);
    box.dataset.points = String(data[0].length);
  };

  let source = null;
  const listen = () => {
    const wanted = !window.millrace.paused && !document.hidden;
    if (!wanted && source) { source.close(); source = null; }
    if (wanted && !source) {
      source = new EventSource(box.dataset.live);
      source.addEventListener("sample", (e) => show(JSON.parse(e.data)));
    }
  };

  fetch(box.dataset.history).then((r) => (r.ok ? r.json() : { at: [] })).catch(() => ({ at: [] })).then((past) => {
    const from = live ? Date.now() / 1e3 - keep : 0;
    past.at.forEach((at, i) => {
      if (at < from) return;
      data[0].push(at + past.seconds);
      lines.forEach(([name], n) => data[n + 1].push(past[name][i]));
    });
    draw();
    box.dataset.points = String(data[0].length);
    listen();
  });
  addEventListener("resize", () => { if (plot) plot.setSize({ width: width(), height: 260 }); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  document.addEventListener("visibilitychange", listen);
  document.addEventListener("millrace:paused", listen);
})();
