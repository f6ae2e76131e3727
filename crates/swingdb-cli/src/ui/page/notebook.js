// The notebook: cells, their order, saving, files, history.

import { makeCell } from "./cell.js";
import { button, download, duration, h } from "./dom.js";
import { fromSql, history, keepBooks, newBook, readBooks, toSql } from "./document.js";

/**
 * Shows the notebook in a section. `page` has session() (a promise of its number), database(),
 * choose(database), ran(about) and notice(text).
 */
export function makeNotebook(section, page) {
  const state = readBooks();
  let cells = [];
  const place = h("div", {});
  const past = h("div", { class: "history", hidden: true });
  const books = h("select", { "aria-label": "Notebook", onchange: () => open(Number(books.value)) });
  const file = h("input", { type: "file", accept: ".sql,text/plain", hidden: true, "aria-label": "Notebook file" });
  const book = () => state.books[state.current];

  const hooks = {
    session: page.session,
    database: page.database,
    ran: (about) => {
      page.ran(about);
      if (!past.hidden) showHistory();
    },
    changed: save,
    next: (cell) => {
      const at = cells.indexOf(cell) + 1;
      if (at === cells.length) add("", at);
      cells[at].focus();
    },
    remove: (cell) => {
      cell.forget();
      cells = cells.filter((other) => other !== cell);
      if (cells.length === 0) add("", 0);
      order();
    },
    move: (cell, step) => {
      const from = cells.indexOf(cell);
      const to = from + step;
      if (to < 0 || to >= cells.length) return;
      cells.splice(from, 1);
      cells.splice(to, 0, cell);
      order();
    },
  };

  function add(sql, at) {
    const cell = makeCell(sql, hooks);
    cells.splice(at, 0, cell);
    order();
    return cell;
  }

  function order() {
    place.replaceChildren(...cells.map((cell) => cell.element));
    for (const cell of cells) cell.grow();
    save();
  }

  function save() {
    book().cells = cells.map((cell) => cell.sql());
    keep();
  }

  function keep() {
    if (!keepBooks(state)) page.notice("The browser has no room for the notebook: export it as a file.");
  }

  function open(index) {
    for (const cell of cells) cell.forget();
    state.current = index;
    cells = book().cells.map((sql) => makeCell(sql, hooks));
    books.replaceChildren(...state.books.map((one, at) => h("option", { value: at }, one.name)));
    books.value = String(index);
    order();
    if (book().database) page.choose(book().database);
  }

  function insert(one) {
    state.books.push(one);
    open(state.books.length - 1);
  }

  function create() {
    insert(newBook(`Notebook ${state.books.length + 1}`, page.database()));
  }

  function rename() {
    const name = prompt("Name of the notebook", book().name);
    if (!name) return;
    book().name = name;
    books.options[state.current].textContent = name;
    save();
  }

  function remove() {
    if (!confirm(`Delete the notebook "${book().name}"?`)) return;
    state.books.splice(state.current, 1);
    if (state.books.length === 0) state.books.push(newBook("Notebook", page.database()));
    open(Math.min(state.current, state.books.length - 1));
  }

  function exportFile() {
    save();
    const name = book().name.replaceAll(/[^\p{L}\p{N}._-]+/gu, "-") || "notebook";
    download(`${name}.sql`, toSql(book()));
  }

  file.addEventListener("change", async () => {
    const [chosen] = file.files;
    if (chosen) insert(fromSql(await chosen.text(), chosen.name.replace(/\.sql$/i, "")));
    file.value = "";
  });

  function showHistory() {
    const entry = (one) => h("button", { type: "button", onclick: () => add(one.sql, cells.length).focus() },
      h("span", { class: "quiet" }, new Date(one.when).toLocaleTimeString()),
      h("code", { title: one.sql }, one.sql.replaceAll(/\s+/g, " ")),
      h("span", { class: one.state === "done" ? "quiet" : "bad" }, one.state === "done" ? duration(one.elapsed_ms) : one.state));
    const entries = history();
    past.replaceChildren(...(entries.length ? entries.map(entry) : ["Nothing was run yet."]));
  }

  const runAll = async () => {
    for (const cell of cells) await cell.execute(false);
  };
  section.replaceChildren(
    h("div", { class: "bar" }, books, button("New", create), button("Rename", rename), button("Delete", remove),
      h("span", { class: "spacer" }), button("Run all", runAll), button("Export", exportFile),
      button("Import", () => file.click()), file,
      button("History", () => {
        past.hidden = !past.hidden;
        if (!past.hidden) showHistory();
      })),
    past, place, button("Add cell", () => add("", cells.length).focus()));

  return {
    start: () => open(state.current),
    /** The database of the notebook that is open. */
    database: () => book().database,
    setDatabase: (name) => {
      book().database = name;
      keep();
    },
  };
}
