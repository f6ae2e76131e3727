// The view of all databases of this machine: lineage, sizes, and who holds which memory.

import { call } from "./api.js";
import { ago, button, bytes, count, h, table } from "./dom.js";
import { lineage } from "./lineage.js";

const names = (list) => list.map(([name, numeric]) => ({ name, numeric: Boolean(numeric) }));

const DATABASES = names([["name"], ["own", 1], ["shared", 1], ["private", 1], ["epoch", 1], ["shared when"], ["writer"],
  ["readers"], ["taken from"], ["store"]]);
const PROCESSES = names([["process", 1], ["command"], ["resident", 1], ["holds"], ["as"], ["bytes", 1]]);

function databaseRow(database, commands) {
  const who = (pid) => (commands.get(pid) ? `${pid} ${commands.get(pid)}` : `${pid}`);
  if (database.dropped) {
    return [`(dropped ${database.id})`, bytes(database.own_bytes), "–", "–", "–", "–", "–",
      database.reader_pids.map(who).join(", ") || "–", "–", "–"];
  }
  const writer = database.writer ? who(database.writer.pid) : "–";
  return [database.label ? `${database.label} (${database.name})` : database.name,
    bytes(database.own_bytes), bytes(database.shared_bytes), bytes(database.private_bytes),
    count(database.shared_epoch), ago(database.shared_ns),
    database.memory_gone ? "– (memory gone)" : writer,
    database.reader_pids.map(who).join(", ") || "–", database.parents.join(", ") || "–",
    database.store ? `${database.store} (${database.durability})` : "–"];
}

function processRows(processes) {
  return processes.flatMap((process) =>
    process.holds.map((held, index) => [
      index === 0 ? String(process.pid) : "",
      index === 0 ? (process.command ?? "–") + (process.is_this ? " (this page)" : "") : "",
      index === 0 ? bytes(process.resident_bytes) : "",
      held.database, held.role, bytes(held.bytes)]));
}

/** Draws an overview; `choose(database)` hears of a click on one. */
export function showDatabases(section, overview, choose) {
  const commands = new Map(overview.processes.map((process) => [process.pid, process.command]));
  const findings = section.querySelector(".findings") ?? h("div", { class: "findings" },
    button("Look for what costs speed or capacity", async () => {
      const { findings: found } = await call("GET", "doctor");
      findings.replaceChildren(
        found.length ? h("ul", {}, found.map((one) => h("li", {}, one.what, h("br"),
          h("span", { class: "quiet" }, one.cost), h("pre", {}, `$ ${one.mend}`)))) : "Nothing to mend.");
    }));
  if (overview.databases.length === 0) {
    section.replaceChildren(h("p", {}, "There are no databases on this machine yet: ",
      h("code", {}, "swingdb generate taxi taxi"), " makes one."), findings);
    return;
  }
  section.replaceChildren(
    h("h2", {}, "Who came from whom"),
    h("div", { class: "lineage" }, lineage(overview.databases, choose)),
    h("h2", {}, "Databases"),
    table(DATABASES, overview.databases.map((database) => databaseRow(database, commands))),
    h("p", { class: "quiet" }, "own: memory in the database's own file; shared: memory of others that it shows; " +
      "private: the part of its own that its newest shared state does not show."),
    h("h2", {}, "Who holds which memory"),
    overview.processes.length ? table(PROCESSES, processRows(overview.processes), { id: "processes" })
      : h("p", { class: "quiet" }, "No process uses a database."),
    h("p", { class: "quiet" }, "A reader holds a lease on a state and reads the writer's memory: its bytes are shared, not copied."),
    h("h2", {}, "Findings"), findings);
}
