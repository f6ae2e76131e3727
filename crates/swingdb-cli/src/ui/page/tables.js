// The view of the tables of the session's snapshot.

import { call, run, tell } from "./api.js";
import { bytes, count, h, table } from "./dom.js";
import { rowsOf } from "./result.js";

const COLUMNS = ["column", "type", "NULL", "default", "comment"].map((name) => ({ name }));
const FIRST_ROWS = 50;

async function showTable(place, session, one) {
  const columns = one.columns.map((column) => [column.name, column.type, column.nullable ? "yes" : "no",
    column.default ?? "", column.comment ?? ""]);
  const rows = h("div", {}, h("p", { class: "quiet" }, "…"));
  const facts = one.kind === "view" ? "view" : `${count(one.rows)} rows, ${bytes(one.bytes)}`;
  place.replaceChildren(h("div", {},
    h("h2", {}, one.sql, h("span", { class: "quiet" }, `  ${facts}`)),
    one.comment ? h("p", {}, one.comment) : null,
    table(COLUMNS, columns),
    h("h3", {}, "First rows"), rows));
  try {
    const [number, about] = await run(session, `SELECT * FROM ${one.sql} LIMIT ${FIRST_ROWS}`);
    const [result] = about.results;
    rows.replaceChildren(about.error ? h("pre", { class: "error" }, about.error.message)
      : await rowsOf(number, 0, result, FIRST_ROWS));
    tell("DELETE", `runs/${number}`);
  } catch (error) {
    rows.replaceChildren(h("pre", { class: "error" }, error.message));
  }
}

/** Lists the tables of a session. */
export async function showTables(section, session) {
  const { tables, more } = await call("GET", `sessions/${session}/tables`);
  const place = h("div", {}, h("p", { class: "quiet" }, tables.length ? "Choose a table." : "There are no tables."));
  const choose = (one) => (event) => {
    for (const other of section.querySelectorAll(".list button")) other.setAttribute("aria-pressed", "false");
    event.currentTarget.setAttribute("aria-pressed", "true");
    showTable(place, session, one);
  };
  const item = (one) => h("li", {}, h("button", { type: "button", onclick: choose(one), "aria-pressed": "false" },
    h("span", {}, one.schema === "main" ? one.name : `${one.schema}.${one.name}`),
    h("span", {}, one.kind === "view" ? "view" : count(one.rows)),
    one.kind === "view" ? null : h("span", {}, bytes(one.bytes))));
  section.replaceChildren(h("div", { class: "columns" },
    h("div", {}, h("ul", { class: "list" }, tables.map(item)), more ? h("p", { class: "quiet" }, "There are more.") : null),
    place));
}
