// One cell of the notebook: SQL, what it does now, and what it returned.

import { call, run, tell } from "./api.js";
import { button, count, duration, h } from "./dom.js";
import { remember } from "./document.js";
import { resultsOf } from "./result.js";

/** How far a run is, in words. */
function progressText(progress) {
  if (!progress) return "";
  const total = progress.total ? ` of ${count(progress.total)}` : "";
  return `, ${count(progress.done)}${total} ${progress.unit}`;
}

/**
 * Makes a cell. `notebook` has session() and database(), and hears changed(), next(cell),
 * remove(cell), move(cell, step).
 */
export function makeCell(sql, notebook) {
  const text = h("textarea", { spellcheck: "false", "aria-label": "SQL", rows: "2" });
  text.value = sql;
  const state = h("span", { class: "state", role: "status" });
  const progress = h("progress", { hidden: true, "aria-label": "Progress" });
  const output = h("div", { class: "output" });
  // The run whose results are shown or will be, if any.
  let current = null;
  let running = false;

  const start = button("Run", () => execute(false), { class: "main", title: "Ctrl+Enter; Shift+Enter goes on to the next cell" });
  const plan = button("Plan", () => execute(true), { title: "Run the last statement and show what each operator did (EXPLAIN ANALYZE)" });
  const stop = button("Cancel", cancel, { hidden: true });
  const element = h("div", { class: "cell" }, text,
    h("div", { class: "bar" }, start, plan, stop, state, progress, h("span", { class: "spacer" }),
      button("↑", () => notebook.move(cell, -1), { "aria-label": "Move up" }),
      button("↓", () => notebook.move(cell, 1), { "aria-label": "Move down" }),
      button("✕", () => notebook.remove(cell), { "aria-label": "Remove cell" })),
    output);

  function grow() {
    text.style.height = "auto";
    text.style.height = `${Math.min(text.scrollHeight + 2, 600)}px`;
  }

  function say(name, words) {
    state.dataset.state = name;
    state.textContent = words;
  }

  function show(isRunning) {
    running = isRunning;
    start.disabled = plan.disabled = isRunning;
    stop.hidden = !isRunning;
    stop.disabled = false;
    progress.hidden = true;
  }

  function watch(number, about) {
    current = number;
    say("running", `running, ${duration(about.elapsed_ms)}${progressText(about.progress)}`);
    const total = about.progress?.total;
    progress.hidden = !total;
    if (total) {
      progress.max = total;
      progress.value = about.progress.done;
    }
  }

  /** Puts the cursor where the error is. */
  function point({ line, column }) {
    if (!line || !column) return;
    const lines = text.value.split("\n");
    const before = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
    // Columns count characters, the selection counts units of UTF-16.
    const at = before + [...(lines[line - 1] ?? "")].slice(0, column - 1).join("").length;
    text.focus();
    text.setSelectionRange(at, at);
  }

  async function execute(explain) {
    if (running || text.value.trim() === "") return;
    const source = text.value;
    forget();
    output.replaceChildren();
    show(true);
    say("running", "running");
    try {
      const [number, about] = await run(await notebook.session(), source, { explain, watch });
      current = number;
      const words = about.state === "failed" ? "failed" : about.state === "cancelled" ? "cancelled" : "done";
      output.replaceChildren(...(await resultsOf(number, about)));
      say(about.state, `${words}, ${duration(about.elapsed_ms)}`);
      remember({ sql: source, database: notebook.database(), when: Date.now(), state: about.state, elapsed_ms: about.elapsed_ms });
      if (about.error) point(about.error);
      notebook.ran(about);
    } catch (error) {
      say("failed", "failed");
      output.replaceChildren(h("pre", { class: "error" }, error.message));
    } finally {
      show(false);
    }
  }

  async function cancel() {
    stop.disabled = true;
    if (current !== null) await call("POST", `runs/${current}/cancel`).catch(() => {});
    else stop.disabled = false;
  }

  function forget() {
    if (current !== null) tell("DELETE", `runs/${current}`);
    current = null;
  }

  text.addEventListener("input", () => {
    grow();
    notebook.changed();
  });
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey || event.shiftKey)) return;
    event.preventDefault();
    execute(false);
    if (event.shiftKey) notebook.next(cell);
  });

  const cell = { element, forget, grow, execute, sql: () => text.value, focus: () => text.focus() };
  return cell;
}
