// Keys, the choice of rows and the pause of updates. Every page works without this.
(() => {
  "use strict";
  const $ = (selector) => document.querySelector(selector);
  const base = new URL($(".brand").href).pathname;
  const typing = (e) => e.target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]");

  // Updates: htmx asks for what moves by itself, unless the user has paused that.
  const updates = $("#updates");
  let paused = false;
  try { paused = localStorage.getItem("millrace.paused") === "yes"; } catch { /* storage may be forbidden */ }
  const showPause = () => {
    if (!updates) return;
    updates.textContent = paused ? "Updates are paused" : "Pause updates";
    updates.setAttribute("aria-pressed", String(paused));
    document.dispatchEvent(new CustomEvent("millrace:paused", { detail: paused }));
  };
  const togglePause = () => {
    paused = !paused;
    try { localStorage.setItem("millrace.paused", paused ? "yes" : "no"); } catch { /* as above */ }
    showPause();
  };
  if (updates) {
    updates.hidden = !$("[data-updates], [data-live]");
    updates.addEventListener("click", togglePause);
  }
  document.addEventListener("htmx:beforeRequest", (e) => {
    if (e.target.closest("[data-updates]") && (paused || document.hidden)) e.preventDefault();
  });
  window.millrace = { get paused() { return paused; }, get local() { return local; } };

  // The menu of narrow screens. Without this script its link leads there.
  const menu = $(".menu"), pages = $("#pages");
  if (menu && pages) {
    menu.setAttribute("role", "button");
    menu.addEventListener("click", (e) => {
      e.preventDefault();
      menu.setAttribute("aria-expanded", String(pages.classList.toggle("open")));
    });
    menu.addEventListener("keydown", (e) => { if (e.key === " ") { e.preventDefault(); menu.click(); } });
  }

  // The theme: as the browser says, light or dark. The server sets it from a cookie, so that no page flashes.
  const theme = $("#theme"), themes = ["", "light", "dark"], root = document.documentElement;
  if (theme) {
    const show = () => { theme.textContent = { "": "Theme: auto", light: "Theme: light", dark: "Theme: dark" }[root.dataset.theme || ""]; };
    theme.hidden = false;
    theme.addEventListener("click", () => {
      const next = themes[(themes.indexOf(root.dataset.theme || "") + 1) % themes.length];
      if (next) root.dataset.theme = next; else delete root.dataset.theme;
      document.cookie = "millrace_theme=" + next + "; path=" + base + "; max-age=" + (next ? 31536000 : 0) + "; samesite=lax";
      show();
      document.dispatchEvent(new CustomEvent("millrace:theme"));
    });
    show();
  }

  // Times: UTC as the server writes them, or those of this machine.
  const zone = $("#zone");
  let local = false;
  try { local = localStorage.getItem("millrace.zone") === "local"; } catch { /* as above */ }
  const two = (n) => String(n).padStart(2, "0");
  const clock = (d) => (local
    ? d.getFullYear() + "-" + two(d.getMonth() + 1) + "-" + two(d.getDate()) + " " + two(d.getHours()) + ":" + two(d.getMinutes()) + ":" + two(d.getSeconds()) + " here"
    : d.toISOString().slice(0, 19).replace("T", " ") + " UTC");
  const showTimes = () => {
    document.querySelectorAll("time[datetime]").forEach((e) => {
      const text = clock(new Date(e.dateTime));
      if (e.title) e.title = text; else if (e.textContent !== text) e.textContent = text;
    });
    if (zone) zone.textContent = local ? "Times: local" : "Times: UTC";
  };
  if (zone) {
    zone.hidden = false;
    zone.addEventListener("click", () => {
      local = !local;
      try { localStorage.setItem("millrace.zone", local ? "local" : "utc"); } catch { /* as above */ }
      showTimes();
      document.dispatchEvent(new CustomEvent("millrace:theme")); // charts draw their axes again
    });
  }
  document.addEventListener("htmx:afterSwap", showTimes);
  if (local || zone) showTimes();

  // Tables that can be sorted: this page of them. The order is kept when the rows are loaded again.
  let sorted = null; // { column, up }
  const cellOf = (row, i) => {
    const cell = row.cells[i], text = (cell.dataset.sort ?? cell.textContent).trim();
    const n = parseFloat(text.replace(/[,<]/g, ""));
    return Number.isNaN(n) ? text.toLowerCase() : n;
  };
  const sortRows = () => {
    const table = $("table[data-sortable]");
    if (!table) return;
    [...table.tHead.rows[0].cells].forEach((th, i) => {
      if (!th.textContent.trim() || "unsorted" in th.dataset || th.querySelector(".hidden")) return;
      if (!th.querySelector("button")) {
        const button = document.createElement("button");
        button.type = "button";
        button.className = "sort";
        button.append(...th.childNodes);
        button.addEventListener("click", () => {
          sorted = { column: i, up: sorted && sorted.column === i ? !sorted.up : i === 0 };
          sortRows();
        });
        th.append(button);
      }
      if (sorted && sorted.column === i) th.setAttribute("aria-sort", sorted.up ? "ascending" : "descending"); else th.removeAttribute("aria-sort");
    });
    if (!sorted) return;
    const found = [...table.querySelectorAll("tr[data-row]")];
    found.sort((a, b) => {
      const x = cellOf(a, sorted.column), y = cellOf(b, sorted.column);
      return (x < y ? -1 : x > y ? 1 : 0) * (sorted.up ? 1 : -1);
    });
    const last = found.length && found[0].parentNode;
    found.forEach((row) => last.append(row));
  };
  document.addEventListener("htmx:afterSwap", sortRows);
  sortRows();

  // Buttons that copy a text. Browsers let only pages of a secure origin do that.
  if (navigator.clipboard) {
    document.querySelectorAll("[data-copy]").forEach((b) => { b.hidden = false; });
    document.addEventListener("click", (e) => {
      const button = e.target.closest("[data-copy]");
      if (!button) return;
      navigator.clipboard.writeText(button.dataset.copy).then(() => {
        button.textContent = "Copied";
        setTimeout(() => { button.textContent = "Copy"; }, 1500);
      }, () => {});
    });
  }

  // Choice of rows.
  const act = $("#act");
  const boxes = () => [...document.querySelectorAll("input[name=job]")];
  const showChosen = () => {
    if (!act) return;
    const n = boxes().filter((b) => b.checked).length;
    act.querySelector(".chosen").textContent = n ? n + " chosen" : "";
    const all = $("#all");
    all.checked = n > 0 && n === boxes().length;
    all.indeterminate = n > 0 && n < boxes().length;
  };
  if (act) {
    act.querySelector("[data-all]").hidden = false;
    $("#all").addEventListener("change", (e) => { boxes().forEach((b) => { b.checked = e.target.checked; }); showChosen(); });
    document.addEventListener("change", (e) => { if (e.target.name === "job") showChosen(); });
    const to = act.querySelector("[data-to]"), attempts = act.querySelector("[data-attempts]"), action = act.querySelector("[name=action]");
    const showFields = () => {
      to.hidden = action.value !== "move";
      to.querySelector("input").required = action.value === "move";
      attempts.hidden = action.value !== "respawn";
    };
    action.addEventListener("change", showFields);
    showFields();
    showChosen();
  }

  // Keys.
  const rows = () => [...document.querySelectorAll("tr[data-row]")];
  const current = () => rows().indexOf(document.activeElement.closest("tr[data-row]"));
  const move = (by) => {
    const all = rows();
    if (!all.length) return;
    const row = all[Math.min(all.length - 1, Math.max(0, current() + by))];
    row.tabIndex = -1;
    row.focus();
    row.scrollIntoView({ block: "nearest" });
  };
  const dialog = $("#keys"), button = $("#keys-button");
  if (button) {
    button.hidden = false;
    button.addEventListener("click", () => dialog.showModal());
  }
  const places = { o: "", q: "queues", f: "failures", j: "jobs", d: "dead" };
  let going = 0;
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || typing(e) || dialog.open) return;
    const at = current();
    const row = at >= 0 ? rows()[at] : null;
    if (Date.now() - going < 1500 && e.key in places) {
      going = 0;
      location.href = base + places[e.key];
      return;
    }
    switch (e.key) {
      case "/": if ($("#find")) { e.preventDefault(); $("#find").focus(); } break;
      case "j": move(1); break;
      case "k": move(-1); break;
      case "g": going = Date.now(); break;
      case "p": if (updates && !updates.hidden) togglePause(); break;
      case "?": if (button) dialog.showModal(); break;
      case "x": {
        const box = row && row.querySelector("input[name=job]");
        if (box) { box.checked = !box.checked; showChosen(); }
        break;
      }
      case "Enter": {
        const link = row && e.target === row && row.querySelector("a");
        if (link) link.click();
        break;
      }
    }
  });
  showPause();
})();
