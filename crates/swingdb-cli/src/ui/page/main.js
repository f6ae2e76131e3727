// The page: its views, and its session, which is a snapshot of the chosen database.

import { call, tell } from "./api.js";
import { showDatabases } from "./databases.js";
import { count, h } from "./dom.js";
import { makeNotebook } from "./notebook.js";
import { showTables } from "./tables.js";

const EVERY_MS = 5000;
const NONE = "";

const at = (id) => document.getElementById(id);
const [database, scratch, epoch, refresh, notice] = ["database", "scratch", "epoch", "refresh", "notice"].map(at);
let view = "notebook";
// A promise of the session, so that cells that are run meanwhile wait for it.
let session = null;

function say(text) {
  notice.textContent = text ?? "";
  notice.hidden = !text;
}

const chosen = () => database.value || null;

function show(about) {
  const what = about.database === null ? "a private database" : `snapshot of epoch ${count(about.epoch)}`;
  epoch.textContent = about.gone ? `${what} (the database was dropped)` : about.newer ? `${what}, there is a newer state` : what;
  refresh.classList.toggle("main", Boolean(about.newer));
  refresh.disabled = about.database === null;
}

/** Takes a snapshot of the chosen database; ends the one before. */
function open() {
  const old = session;
  const now = (async () => {
    const before = await old?.catch(() => null);
    if (before) tell("DELETE", `sessions/${before.session}`);
    return call("POST", "sessions", { database: chosen(), scratch: scratch.checked });
  })();
  session = now;
  now.then((about) => {
    if (session !== now) return;
    say(null);
    show(about);
    if (view === "tables") showView();
  }, (error) => {
    epoch.textContent = "";
    say(error.message);
  });
  return now;
}

/** The number of the session, which is opened again where it was forgotten. */
async function sessionNumber() {
  let about = await (session ?? open()).catch(() => open());
  try {
    await call("GET", `sessions/${about.session}`);
  } catch (error) {
    if (error.status !== 404) throw error;
    session = null;
    about = await open();
  }
  return about.session;
}

/** Lists the databases; keeps the choice. */
function list(overview, want) {
  const names = overview.databases.filter((one) => !one.dropped && one.shared_epoch !== null).map((one) => one.name);
  if (want && !names.includes(want)) names.push(want);
  const options = [h("option", { value: NONE }, "none (files only)"), ...names.map((name) => h("option", { value: name }, name))];
  const same = options.length === database.options.length && options.every((one, i) => one.value === database.options[i].value);
  if (!same) database.replaceChildren(...options);
  database.value = want ?? NONE;
}

function choose(name) {
  if (chosen() === name) return;
  if (![...database.options].some((option) => option.value === (name ?? NONE))) {
    database.append(h("option", { value: name }, name));
  }
  database.value = name ?? NONE;
  open();
}

const notebook = makeNotebook(at("notebook"), {
  session: sessionNumber,
  database: chosen,
  choose,
  // A cell may have made a table.
  ran: () => say(null),
  notice: say,
});

async function showView() {
  for (const name of ["notebook", "tables", "databases"]) at(name).hidden = name !== view;
  for (const button of document.querySelectorAll("nav button")) {
    button.setAttribute("aria-pressed", String(button.dataset.view === view));
  }
  try {
    if (view === "tables") await showTables(at("tables"), await sessionNumber());
    if (view === "databases") await showOverview();
  } catch (error) {
    say(error.message);
  }
}

async function showOverview() {
  const overview = await call("GET", "overview");
  list(overview, chosen());
  showDatabases(at("databases"), overview, (name) => {
    choose(name);
    view = "tables";
    showView();
  });
}

/** Looks after the session, and at the databases where they are shown. */
async function tick() {
  try {
    if (session) {
      const about = await session;
      show(await call("GET", `sessions/${about.session}`));
    }
    if (view === "databases" && !document.hidden && !at("databases").contains(document.activeElement)) await showOverview();
  } catch (error) {
    // A forgotten session is opened again when it is needed.
    if (error.status !== 404) say(error.message);
  }
  setTimeout(tick, EVERY_MS);
}

database.addEventListener("change", () => {
  notebook.setDatabase(chosen());
  open().catch(() => {});
});
scratch.addEventListener("change", () => open().catch(() => {}));
refresh.addEventListener("click", async () => {
  try {
    show(await call("POST", `sessions/${await sessionNumber()}/refresh`));
    if (view === "tables") showView();
  } catch (error) {
    say(error.message);
  }
});
for (const button of document.querySelectorAll("nav button")) {
  button.addEventListener("click", () => {
    view = button.dataset.view;
    showView();
  });
}
addEventListener("pagehide", () => {
  session?.then((about) => tell("DELETE", `sessions/${about.session}`), () => {});
});

try {
  const overview = await call("GET", "overview");
  const known = overview.databases.find((one) => !one.dropped && one.shared_epoch !== null)?.name ?? null;
  const kept = overview.databases.some((one) => one.name === notebook.database()) ? notebook.database() : null;
  list(overview, overview.first ?? kept ?? known);
  notebook.setDatabase(chosen());
  notebook.start();
  open().catch(() => {});
} catch (error) {
  notebook.start();
  say(error.message);
}
tick();
