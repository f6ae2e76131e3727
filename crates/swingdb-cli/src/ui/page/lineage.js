// Draws who came from whom: databases from left to right, each behind those that it was taken from.

import { bytes, svg } from "./dom.js";

const WIDTH = 190;
const HEIGHT = 58;
const GAP_X = 60;
const GAP_Y = 18;
const MARGIN = 14;
const MAX_NAME = 24;

/** Nodes by name, with those parents that are gone. */
function nodesOf(databases) {
  const nodes = new Map();
  for (const database of databases) {
    if (!database.dropped) nodes.set(database.name, { name: database.name, database, parents: database.parents });
  }
  for (const { parents } of [...nodes.values()]) {
    for (const parent of parents) {
      if (!nodes.has(parent)) nodes.set(parent, { name: parent, database: null, parents: [] });
    }
  }
  return nodes;
}

/** How many steps a node is away from the farthest root. Names given again can make circles. */
function depthOf(node, nodes, above = new Set()) {
  if (node.depth !== undefined) return node.depth;
  if (above.has(node.name)) return 0;
  above.add(node.name);
  const depths = node.parents.map((parent) => depthOf(nodes.get(parent), nodes, above) + 1);
  above.delete(node.name);
  node.depth = Math.max(0, ...depths);
  return node.depth;
}

/** Places each depth in a column, its nodes near their parents. */
function place(nodes) {
  const columns = [];
  for (const node of nodes.values()) (columns[depthOf(node, nodes)] ??= []).push(node);
  for (const column of columns.filter(Boolean)) {
    const middle = (node) => {
      const rows = node.parents.map((parent) => nodes.get(parent).row).filter((row) => row !== undefined);
      return rows.length ? rows.reduce((sum, row) => sum + row, 0) / rows.length : Infinity;
    };
    column.sort((a, b) => middle(a) - middle(b) || (a.name < b.name ? -1 : 1));
    column.forEach((node, row) => {
      node.row = row;
      node.x = MARGIN + node.depth * (WIDTH + GAP_X);
      node.y = MARGIN + row * (HEIGHT + GAP_Y);
    });
  }
  return columns;
}

function edge(from, to) {
  const [x1, y1] = [from.x + WIDTH, from.y + HEIGHT / 2];
  const [x2, y2] = [to.x, to.y + HEIGHT / 2];
  const bend = Math.max(GAP_X / 2, Math.abs(x2 - x1) / 2);
  return svg("path", { class: "edge", d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` });
}

function box(node, choose) {
  const { database, name, x, y } = node;
  const shown = name.length > MAX_NAME ? `${name.slice(0, MAX_NAME - 1)}…` : name;
  const facts = database
    ? `${bytes(database.own_bytes)}${database.shared_epoch === null ? "" : `, epoch ${database.shared_epoch}`}`
    : "dropped";
  const users = database
    ? [database.writer && `writer ${database.writer.pid}`,
      database.reader_pids.length > 0 && `${database.reader_pids.length} reading`].filter(Boolean).join(", ")
    : "";
  const use = database ? { tabindex: "0", role: "button", onclick: () => choose(name),
    onkeydown: (event) => event.key === "Enter" && choose(name) } : {};
  return svg("g", { class: database ? "node" : "node gone", transform: `translate(${x} ${y})`, ...use },
    svg("title", {}, name),
    svg("rect", { width: WIDTH, height: HEIGHT, rx: 6 }),
    svg("text", { class: "name", x: 10, y: 19 }, shown),
    svg("text", { x: 10, y: 35 }, facts),
    svg("text", { class: "more", x: 10, y: 50 }, users));
}

/** The picture of the databases of an overview; `choose(name)` hears of a click. */
export function lineage(databases, choose) {
  const nodes = nodesOf(databases);
  const columns = place(nodes);
  const rows = Math.max(0, ...columns.filter(Boolean).map((column) => column.length));
  const width = 2 * MARGIN + columns.length * (WIDTH + GAP_X) - GAP_X;
  const height = 2 * MARGIN + rows * (HEIGHT + GAP_Y) - GAP_Y;
  const edges = [...nodes.values()].flatMap((node) =>
    node.parents.filter((parent) => parent !== node.name).map((parent) => edge(nodes.get(parent), node)));
  return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Lineage of the databases" },
    edges, [...nodes.values()].map((node) => box(node, choose)));
}
