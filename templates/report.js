// Comforts: a switch of theme, buttons that copy code, tables that can be sorted. The page says everything else without them. Its policy allows this script alone, by its digest.
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
      told.textContent = read[at].querySelector("title").textContent;
    });
  }

  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll("[data-theme-switch]").forEach(addThemeSwitch);
    document.querySelectorAll("pre[data-copy]").forEach(addCopyButton);
    document.querySelectorAll("table[data-sortable]").forEach(addSorting);
    document.querySelectorAll("figure [role=img]").forEach(addReading);
    unfold();
  });
  window.addEventListener("hashchange", unfold);
})();
