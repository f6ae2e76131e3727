// Notebooks and the history, kept by the browser, and their form as a file of SQL.

const BOOKS = "swingdb.notebooks";
const HISTORY = "swingdb.history";
const MAX_HISTORY = 200;
const TITLE = "-- notebook: ";
const DATABASE = "-- database: ";
const CELL = "-- %%";

function read(key, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

function write(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

/** A new notebook. */
export function newBook(name, database, cells = [""]) {
  return { name, database, cells: cells.length ? cells : [""] };
}

/** What is kept: {current, books}. What is damaged is left out. */
export function readBooks() {
  const kept = read(BOOKS, {});
  const isBook = (book) => typeof book?.name === "string" && Array.isArray(book.cells) && book.cells.every((c) => typeof c === "string");
  const books = Array.isArray(kept.books) ? kept.books.filter(isBook) : [];
  if (books.length === 0) books.push(newBook("Notebook", null));
  return { current: books[kept.current] ? kept.current : 0, books };
}

/** Keeps them; false where the browser has no room. */
export function keepBooks(state) {
  return write(BOOKS, state);
}

/** What was run, the newest first: {sql, database, when, state, elapsed_ms}. */
export function history() {
  const kept = read(HISTORY, []);
  return Array.isArray(kept) ? kept.filter((entry) => typeof entry?.sql === "string") : [];
}

/** Adds to the history. */
export function remember(entry) {
  write(HISTORY, [entry, ...history().filter((old) => old.sql !== entry.sql)].slice(0, MAX_HISTORY));
}

/** A notebook as SQL: every cell below a line of its own. */
export function toSql(book) {
  const line = (text) => text.replaceAll(/[\r\n]+/g, " ");
  const head = [TITLE + line(book.name)];
  if (book.database) head.push(DATABASE + line(book.database));
  return [...head, ...book.cells.map((sql) => `${CELL}\n${sql.trimEnd()}`)].join("\n") + "\n";
}

/** The notebook that a file of SQL is; one without cells' lines is one cell. */
export function fromSql(text, name) {
  const [head, ...cells] = text.replaceAll("\r\n", "\n").split(/^-- %%.*\n?/m);
  const value = (key) => head.split("\n").find((line) => line.startsWith(key))?.slice(key.length).trim();
  const isHead = (line) => line.startsWith(TITLE) || line.startsWith(DATABASE);
  const before = head.split("\n").filter((line) => !isHead(line)).join("\n").trim();
  if (before) cells.unshift(before);
  return newBook(value(TITLE) || name, value(DATABASE) ?? null, cells.map((sql) => sql.trim()));
}
