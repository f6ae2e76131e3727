// Makes elements. Text from the database only ever becomes a text node, never markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** An HTML element: h("td", {class: "number", onclick: f}, "text", child). */
export function h(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** An element of a picture. */
export function svg(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

/** A button with a text. */
export function button(text, onclick, properties) {
  return h("button", { type: "button", onclick, ...properties }, text);
}

/** 1536 is "1.5 KiB". */
export function bytes(number) {
  if (number === null || number === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (number >= 999.5 && unit + 1 < units.length) {
    number /= 1024;
    unit += 1;
  }
  return `${unit > 0 && number < 9.95 ? number.toFixed(1) : Math.round(number)} ${units[unit]}`;
}

/** 1234567 is "1 234 567", with narrow spaces. */
export function count(number) {
  if (number === null || number === undefined) return "–";
  return String(number).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
}

/** A duration in milliseconds, for people. */
export function duration(ms) {
  if (ms < 1) return `${(ms * 1000).toFixed(0)} µs`;
  if (ms < 1000) return `${ms.toFixed(ms < 10 ? 2 : 0)} ms`;
  return ms < 60000 ? `${(ms / 1000).toFixed(2)} s` : `${Math.floor(ms / 60000)} min ${Math.round((ms % 60000) / 1000)} s`;
}

/** How long ago a moment in nanoseconds since 1970 was. */
export function ago(ns) {
  if (ns === null || ns === undefined) return "–";
  const seconds = Math.max(0, Date.now() / 1000 - ns / 1e9);
  if (seconds < 120) return `${Math.round(seconds)} s ago`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min ago`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h ago` : `${Math.round(seconds / 86400)} d ago`;
}

/**
 * A table. `columns` are {name, type, numeric}, `rows` lists of texts, elements, or null for NULL.
 */
export function table(columns, rows, properties) {
  const kind = (column) => (columns[column].numeric ? "number" : undefined);
  const cell = (value, column) =>
    value === null
      ? h("td", { class: "null" }, "NULL")
      : h("td", { class: kind(column), title: value.length > 60 ? value : undefined }, value);
  const head = columns.map((column, index) =>
    h("th", { class: kind(index), scope: "col" }, column.name, column.type && h("small", {}, column.type)),
  );
  return h("div", { class: "scroll", tabindex: "0", ...properties },
    h("table", {},
      h("thead", {}, h("tr", {}, head)),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map(cell))))));
}

/** Hands a text to the browser as a file. */
export function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "application/sql" }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
