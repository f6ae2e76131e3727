// What a run returned: tables in pages, plans as trees, errors.

import { call } from "./api.js";
import { button, count, duration, h, table } from "./dom.js";

const PAGE = 100;

/** The rows of a result from `offset` on, as a table. */
async function pageOf(run, index, result, offset, limit) {
  const { rows } = await call("GET", `runs/${run}/rows?result=${index}&offset=${offset}&limit=${limit}`);
  return [table(result.columns, rows, { class: "scroll values" }), rows.length];
}

/** The first rows of a result. */
export async function rowsOf(run, index, result, limit) {
  return (await pageOf(run, index, result, 0, limit))[0];
}

/** A table with buttons for its pages. */
async function pages(run, index, result) {
  const place = h("div", {});
  const from = h("span", { class: "quiet" });
  const starts = [0];
  let next = 0;
  const back = button("◀", () => show(starts.slice(0, -1)), { "aria-label": "Previous page" });
  const on = button("▶", () => show([...starts, next]), { "aria-label": "Next page" });
  const bar = h("div", { class: "bar" }, back, from, on);
  async function show(path) {
    const offset = path.at(-1);
    try {
      const [rows, number] = await pageOf(run, index, result, offset, PAGE);
      starts.splice(0, starts.length, ...path);
      next = offset + number;
      place.replaceChildren(rows);
      from.textContent = `rows ${count(offset + 1)} to ${count(next)} of ${result.more ? "the first " : ""}${count(result.rows)}`;
      back.disabled = path.length === 1;
      on.disabled = next >= result.rows;
    } catch (error) {
      place.replaceChildren(h("pre", { class: "error" }, error.message));
    }
  }
  await show([0]);
  bar.hidden = next >= result.rows && !result.more;
  return h("div", {}, place, bar);
}

/** A plan: each operator above those whose rows it reads, with its share of the time. */
function planOf(nodes) {
  const top = h("ul", { class: "plan" });
  const path = [{ indent: -1, list: top }];
  for (const node of nodes) {
    while (path.at(-1).indent >= node.indent) path.pop();
    const list = h("ul", {});
    const share = node.share ?? 0;
    path.at(-1).list.append(h("li", {},
      h("div", {}, h("meter", { value: share, title: "share of the time" }),
        h("span", { class: "share" }, node.share === null ? "" : `${Math.round(100 * share)} %`),
        h("strong", {}, node.operator),
        h("span", { class: "quiet" }, [node.rows && `${node.rows} rows`, node.time].filter(Boolean).join(", ")),
        h("span", { class: "detail" }, node.detail)),
      list));
    path.push({ indent: node.indent, list });
  }
  for (const list of top.querySelectorAll("ul:empty")) list.remove();
  return top;
}

async function texts(run, index) {
  const { rows } = await call("GET", `runs/${run}/rows?result=${index}`);
  return rows.map((row) => h("pre", {}, row.at(-1)));
}

async function body(run, index, result) {
  if (result.plan) return planOf(result.plan);
  if (result.columns === null) return null;
  return result.tag === "EXPLAIN" ? texts(run, index) : pages(run, index, result);
}

function facts(result) {
  const rows = result.columns === null
    ? result.rows_changed === null ? "" : `${count(result.rows_changed)} rows changed, `
    : `${result.more ? "more than " : ""}${count(result.rows)} ${result.rows === 1 ? "row" : "rows"}, `;
  return `${result.tag}: ${result.plan ? "" : rows}${duration(result.elapsed_ms)}`;
}

/** Everything that a run returned, as elements. */
export async function resultsOf(run, about) {
  const results = about.results.map(async (result, index) =>
    h("div", { class: "result" }, h("div", { class: "quiet" }, facts(result)), await body(run, index, result)));
  const shown = await Promise.all(results);
  if (about.error) shown.push(h("pre", { class: "error" }, about.error.message));
  return shown;
}
