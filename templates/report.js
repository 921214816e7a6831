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

  function unfold() {
    const part = document.getElementById(location.hash.slice(1))?.querySelector(":scope > .part");
    if (part) part.open = true;
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

  // Verdicts are listed from the largest budget down; the last is that of a budget that nothing fits.
  function decide(all, objective, budget) {
    const fits = ([least]) => least === budget || (least !== null && budget !== null && least <= budget);
    return all.prefix + all.objectives[objective]
      .map((choices) => (choices.find(fits) || choices[choices.length - 1])[1]).join("; ");
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
      told.textContent = decide(all, select.value, budget);
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
    unfold();
  });
  window.addEventListener("hashchange", unfold);
})();
