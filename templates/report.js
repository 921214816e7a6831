// Comforts: a switch of theme, buttons that copy code, tables that can be sorted and filtered, and the verdict
// for another objective or memory budget. The page says everything else without them. Its policy allows this script alone, by its digest.
(function () {
  "use strict";
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  function make(tag, text, name) {
    const made = document.createElement(tag);
    made.textContent = text;
    if (name) made.className = name;
    if (tag === "button") made.type = "button";
    return made;
  }

  function theme() {
    return root.dataset.theme || (dark.matches ? "dark" : "light");
  }

  function addThemeSwitch(place) {
    const button = make("button", "", "comfort");
    const other = () => (theme() === "dark" ? "light" : "dark");
    const show = () => { button.textContent = other() === "dark" ? "Dark theme" : "Light theme"; };
    button.addEventListener("click", () => { root.dataset.theme = other(); show(); });
    dark.addEventListener("change", show);
    place.append(button);
    show();
  }

  async function copy(code) {
    try {
      await navigator.clipboard.writeText(code.textContent);
      return true;
    } catch (refused) {  // a page from disk has no clipboard in some browsers
      window.getSelection().selectAllChildren(code);
      return document.execCommand("copy");
    }
  }

  function addCopyButton(pre) {
    const button = make("button", "Copy code", "comfort copy");
    const status = make("span", "", "visually-hidden");
    status.setAttribute("role", "status");
    button.addEventListener("click", async () => {
      const done = await copy(pre.querySelector("code"));
      button.textContent = done ? "Copied" : "Selected: press Ctrl+C";
      status.textContent = button.textContent;
      window.setTimeout(() => { button.textContent = "Copy code"; status.textContent = ""; }, 2500);
    });
    pre.before(button, status);
  }

  function key(row, column) {
    const cell = row.cells[column];
    if (column === 0 && row.dataset.names) return row.dataset.names;
    if (cell.dataset.sort === undefined) return cell.textContent.trim();
    return cell.dataset.sort === "" ? null : Number(cell.dataset.sort);
  }

  function compare(a, b, sign) {
    if (a === null || b === null) return (a === null) - (b === null);  // what has no figure stays last
    return sign * (typeof a === "number" ? a - b : a.localeCompare(b));
  }

  function sort(table, column, sign) {
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => ({ row, key: key(row, column) }));
    rows.sort((a, b) => compare(a.key, b.key, sign));
    body.append(...rows.map((item) => item.row));
  }

  function addSorting(table) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = make("button", "");
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        heads.forEach((one) => one.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        sort(table, column, up ? 1 : -1);
      });
    });
  }

  function addFilter(place) {
    const rows = [...document.querySelectorAll("[data-names]")];
    const label = make("label", "Show strategies ", "comfort filter");
    const input = make("input", "");
    Object.assign(input, { type: "search", placeholder: "all, or part of a name" });
    input.addEventListener("input", () => {
      const wanted = input.value.trim().toLowerCase();
      rows.forEach((row) => { row.hidden = !row.dataset.names.toLowerCase().includes(wanted); });
    });
    label.append(input);
    place.before(label);
  }

  // What the titles of a chart's marks tell a mouse, the arrow keys read out.
  function addReading(chart) {
    const marks = [...chart.querySelectorAll("title")].map((title) => title.parentElement);
    const read = marks.filter((mark) => mark !== chart && mark.querySelectorAll("title").length === 1);
    const told = make("output", "", "reading quiet");
    let at = -1;
    if (!read.length) return;
    chart.tabIndex = 0;
    chart.addEventListener("focus", () => {
      chart.closest("figure").append(told);
      told.textContent ||= "The arrow keys read the exact values.";
    });
    chart.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      if (at >= 0) read[at].classList.remove("read");
      at = (Math.max(at, step < 0 ? 0 : -1) + step + read.length) % read.length;
      read[at].classList.add("read");
      told.textContent = [read[at].closest("[data-names]")?.dataset.names, read[at].querySelector("title").textContent]
        .filter(Boolean).join(", ");
    });
  }

  // From here on as advisor/stats.py and advisor/verdicts/choice.py have it.
  const BINS = 8192, SAME_MEMORY = 0.01, LEAST_SAVING = 2 << 20, FEWEST_PROCESSES = 2, NOTHING = 10;
  const known = new Map();

  function student(tail, freedom) {
    const key = `${tail} ${freedom}`, step = Math.PI / 2 / BINS, area = [0];
    if (known.has(key)) return known.get(key);
    const density = (i) => Math.max(Math.cos(i * step), 0) ** (freedom - 1);
    for (let i = 1; i <= BINS; i += 1) area.push(area[i - 1] + (density(i) + density(i - 1)) / 2);
    const wanted = (1 - 2 * tail) * area[BINS];
    const after = area.findIndex((one) => one > wanted);
    const share = (wanted - area[after - 1]) / (area[after] - area[after - 1]);
    known.set(key, Math.sqrt(freedom) * Math.tan(step * (after - 1 + share)));
    return known.get(key);
  }

  function pair(data, row, column) {
    if (row === column) return { difference: 0, error: 0, freedom: 1 };
    const [a, b] = [Math.min(row, column), Math.max(row, column)];
    const at = a * data.names.length - a * (a + 1) / 2 + b - a - 1;
    const sign = row < column ? 1 : -1;
    return { difference: sign * data.difference[at], error: data.error[at], freedom: data.freedom[at] };
  }

  function leanest(rows) {
    const least = Math.min(...rows.map((row) => row.bytes));
    return rows.filter((row) => row.bytes <= least * (1 + SAME_MEMORY));
  }

  function standings(data, rows) {
    const tail = (1 - data.certainty) / 2 / Math.max(1, rows.length - 1);
    const against = rows.map((row) => rows.filter((other) => other !== row).map((other) => {
      const { difference, error, freedom } = pair(data, row.index, other.index);
      const half = student(tail, freedom) * error;
      return { other, low: difference - half, value: difference, high: difference + half };
    }));
    const most = (found, end) => Math.max(-Infinity, ...found.map((one) => one[end]));
    if (rows.length === 1) return [{ ...rows[0], low: 1, value: 1, high: 1 }];
    const low = against.map((found) => most(found, "low"));
    let best = rows.filter((row, i) => low[i] <= 0 && !row.dropped);
    if (!best.length) best = rows;
    return rows.map((row, i) => {
      const rivals = against[i].filter((one) => best.includes(one.other));
      let high = rivals.length ? most(rivals, "high") : Math.min(0, most(against[i], "high"));
      high = Math.max(low[i], high);
      const value = Math.min(Math.max(most(against[i], "value"), low[i]), high);
      return { ...row, low: Math.exp(low[i]), value: Math.exp(value), high: Math.exp(high) };
    });
  }

  function order(...keys) {
    return (a, b) => keys.map((key) => (key(a) > key(b)) - (key(a) < key(b))).find((sign) => sign) || 0;
  }

  function preferred(near, baseline) {
    const least = Math.min(...near.map((one) => one.bytes));
    const kept = near.find((one) => one.name === baseline);
    if (kept && kept.bytes <= least + Math.max(least * SAME_MEMORY, LEAST_SAVING)) return kept;
    return leanest(near).sort(order((one) => one.change, (one) => one.high, (one) => one.rank ?? one.name))[0];
  }

  // As advisor/verdicts/predicted.py chooses; how sure it is, only Python knows.
  function likely({ objectives, baseline, indifference }, objective, budget) {
    return Object.entries(objectives[objective]).map(([device, all]) => {
      const every = all.map(([name, high, bytes, change], rank) => ({ name, high, bytes, change, rank }));
      const fitting = every.filter((row) => budget === null || row.bytes <= budget);
      if (!fitting.length) return { device, chosen: null };
      const rows = objective === "footprint" ? leanest(fitting) : fitting;
      const best = Math.min(...rows.map((row) => row.high));
      const chosen = preferred(rows.filter((row) => row.high <= best * (1 + indifference)), baseline);
      const base = every.find((row) => row.name === baseline);
      return { device, chosen: chosen.name, gain: base ? base.high / chosen.high : null };
    });
  }

  function bets(all, found) {
    return "Predicted, by the likely times alone: " + found.map(({ device, chosen, gain }) => {
      if (chosen === null) return `no strategy fits the memory budget on ${device}`;
      const against = gain === null || chosen === all.baseline ? "" : ` (gain ${gain.toPrecision(3)}×)`;
      return `${chosen} on ${device}${against}`;
    }).join("; ");
  }

  function decide(all, objective, budget) {
    const data = all.objectives[objective];
    const fits = (row) => budget === null || row.bytes <= budget;
    const every = Object.entries(all.contestants).map(([name, [bytes, change, left, dropped, mixed, seconds]]) => (
      { name, index: data.names.indexOf(name), bytes, change, left, dropped, mixed, seconds }
    )).filter((row) => !row.left);
    const compared = every.filter((row) => row.index >= 0);
    const excluded = compared.some((row) => !fits(row));
    let rows = compared.filter(fits);
    if (objective === "footprint" && every.some(fits)) {
      const lean = leanest(every.filter(fits));
      rows = lean.filter((row) => row.index >= 0);
      const kind = lean.length > 1 ? "open" : lean[0].name === data.baseline ? "keep" : "fastest";
      const quickest = [...lean].sort(order((one) => one.seconds, (one) => one.name))[0];
      const doubted = data.untrusted && rows.length === 1;
      if (lean.length === 1) return { kind: doubted ? "untrusted" : kind, chosen: quickest.name, bound: 0, excluded, only: true };
      if (!rows.length) return { kind, chosen: quickest.name, bound: null, excluded };
    }
    if (!rows.length) return { kind: "open", chosen: null, bound: null, excluded };
    const found = standings(data, rows);
    const outside = (one) => one.dropped || one.low > 1 + data.indifference;
    const open = found.filter((one) => !outside(one)), simple = open.filter((one) => !one.mixed);
    const allowed = simple.length ? simple : open.length ? open : found;
    const near = allowed.filter((one) => one.high - 1 <= data.indifference);
    const least = (of) => [...of].sort(order((o) => o.high, (o) => o.value, (o) => o.name))[0];
    const chosen = near.length ? preferred(near, data.baseline) : least(allowed);
    const bound = Math.max(0, chosen.high - 1);
    const first = [...found].sort(order((one) => one.value, (one) => one.name))[0];
    let kind = chosen.name === data.baseline ? "keep" : bound > 0 || chosen !== first ? "near" : "fastest";
    if (!near.length || data.processes < FEWEST_PROCESSES) kind = "open";
    if (data.untrusted) kind = "untrusted";
    return { kind, chosen: chosen.name, bound: bound < NOTHING ? bound : null, excluded };
  }

  function sentence(all, objective, { kind, chosen, bound, excluded, only }) {
    const key = chosen === null ? "over budget" : kind === "untrusted" ? kind
      : only ? "least memory" : kind === "open" && bound === null ? "too few" : kind;
    const words = {
      verb: kind === "keep" ? "Keep" : "Use", name: chosen, best: all.objectives[objective].best,
      bound: `${(Math.max(bound || 0, 0.001) * 100).toFixed(1)} %`,
      among: all.among[objective === "footprint" ? objective : excluded ? "budget" : ""],
    };
    return all.sentences[key].replace(/{(\w+)}/g, (_, name) => words[name]);
  }

  function addChoice(place) {
    const all = JSON.parse(place.dataset.choice);
    const form = make("p", "", "comfort chooser"), select = make("select", ""), input = make("input", "");
    const told = make("output", "", "headline");
    Object.keys(all.objectives).forEach((name) => select.append(make("option", name)));
    if (all.objective in all.objectives) select.value = all.objective;
    Object.assign(input, { type: "number", min: 0, step: "any", placeholder: "none" });
    if (all.budget !== null) input.value = all.budget / 2 ** 20;
    const show = () => {
      const budget = input.value === "" ? null : Number(input.value) * 2 ** 20;
      const found = (all.predicted ? likely : decide)(all, select.value, budget);
      const { kind = "", chosen, bound = "" } = all.predicted ? { chosen: found.map((one) => one.chosen) } : found;
      Object.assign(told.dataset, { kind, chosen, bound });
      told.textContent = all.predicted ? bets(all, found) : sentence(all, select.value, found);
    };
    [["Objective ", select], ["Memory budget, MiB ", input]].forEach(([text, field]) => {
      const label = make("label", text);
      label.append(field);
      form.append(label, " ");
      field.addEventListener("input", show);
    });
    place.prepend(form, told);
    show();
  }

  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll("[data-theme-switch]").forEach(addThemeSwitch);
    document.querySelectorAll("pre[data-copy]").forEach(addCopyButton);
    document.querySelectorAll("table[data-sortable]").forEach(addSorting);
    document.querySelectorAll("[data-choice]").forEach(addChoice);
    document.querySelectorAll("figure [role=img]").forEach(addReading);
    const chart = document.querySelector(".bars");
    if (chart) addFilter(chart.closest("figure"));
  });
})();
