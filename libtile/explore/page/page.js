"use strict";
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rows are made as they are scrolled to. An op goes by its line in the Tile IR, and links the rows of all panes.
const data = JSON.parse(document.getElementById("data").textContent);
const ROW = 18;
const byId = (id) => document.getElementById(id);

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

// ---- texts ---------------------------------------------------------------------------------------------------------

const opsOfPlace = new Map(); // "source:line" -> ops
for (const [op, [source, line]] of Object.entries(data.places)) {
  const key = `${source}:${line}`;
  if (!opsOfPlace.has(key)) opsOfPlace.set(key, []);
  opsOfPlace.get(key).push(+op);
}
const placeOf = (op) => (data.places[op] ? `${data.places[op][0]}:${data.places[op][1]}` : "");

/** What a pane can show: `rowOps[k]` are the ops of row k. */
function sourceText(source, number) {
  const used = [...opsOfPlace.keys()].filter((k) => k.startsWith(number + ":")).map((k) => +k.split(":")[1]);
  const last = Math.max(0, ...used);
  const lines = source.lines || Array.from({ length: last }, () => "");
  const rowOps = lines.map((_, k) => opsOfPlace.get(`${number}:${k + 1}`) || []);
  const note = source.lines ? "" : "The file is not at hand: --source FOLDER says where to look for it.";
  return { title: source.path, lines, rowOps, note, source: number };
}

function listingText(title, listing, compilation = -1, name = "") {
  return { title, lines: listing.lines, rowOps: listing.ops.map((op) => (op ? [op] : [])), note: listing.note, compilation, name };
}

const texts = data.sources.map(sourceText);
texts.push(listingText("cuda_tile", data.tileIr));
data.compilations.forEach((made, number) => {
  const prefix = data.compilations.length > 1 ? `${made.title}: ` : "";
  for (const [name, listing] of Object.entries(made.listings)) texts.push(listingText(prefix + name, listing, number, name));
});
const textOf = (name, compilation = 0) => texts.findIndex((t) => t.name === name && t.compilation === compilation);
const tileIrText = data.sources.length;

const remarksOfRow = new Map(); // "text:row" -> remarks
data.compilations.forEach((made, number) =>
  made.remarks.forEach((remark) => {
    const source = data.sources.findIndex((s) => s.path === remark.file);
    const key = source >= 0 && remark.line ? `${source}:${remark.line - 1}` : "";
    if (!key) return;
    if (!remarksOfRow.has(key)) remarksOfRow.set(key, []);
    remarksOfRow.get(key).push({ ...remark, compilation: number });
  })
);

// Ops of one line of the source share a colour; neighbours in the text get distant hues.
const groups = new Map();
for (let op = 1; op <= data.tileIr.lines.length; op++) {
  const key = placeOf(op) || (data.tileIr.ops[op - 1] ? `op${op}` : "");
  if (key && !groups.has(key)) groups.set(key, groups.size);
}
const dark = matchMedia("(prefers-color-scheme: dark)");
function color(op) {
  const group = groups.get(placeOf(op) || `op${op}`);
  return group === undefined ? "" : `hsl(${(group * 137.508) % 360} 65% ${dark.matches ? 19 : 91}%)`;
}

// ---- panes ---------------------------------------------------------------------------------------------------------

const panes = [];
let current = { op: 0, place: "" };
let focused = null;

class Pane {
  constructor(text) {
    this.row = 0;
    this.select = make("select", { ariaLabel: "What the pane shows" }, ...texts.map((t, k) => make("option", { value: k, textContent: t.title })));
    const close = make("button", { textContent: "\u00d7", title: "Close the pane" });
    this.inner = make("div");
    this.rows = make("div", { className: "rows", tabIndex: 0 }, this.inner);
    this.strip = make("canvas", { className: "strip" });
    this.note = make("div", { className: "note" });
    this.element = make("section", {}, make("div", { className: "bar" }, this.select, close), this.note,
      make("div", { className: "view" }, this.rows, this.strip));
    this.select.onchange = () => { this.show(+this.select.value); this.follow(); remember(); };
    close.onclick = () => { if (panes.length > 1) { panes.splice(panes.indexOf(this), 1); this.element.remove(); redraw(); remember(); } };
    this.rows.onscroll = () => this.draw();
    // No row is made anew here: a click that begins on it would not end there.
    this.rows.onfocus = () => { focused = this; panes.forEach((pane) => pane.markRow()); };
    this.rows.onclick = (event) => this.clicked(event);
    this.rows.onkeydown = (event) => this.key(event);
    this.strip.onclick = (event) => { this.rows.scrollTop = (event.offsetY / this.strip.clientHeight) * this.text.lines.length * ROW - this.rows.clientHeight / 2; };
    byId("panes").append(this.element);
    panes.push(this);
    this.show(text);
  }

  show(number) {
    this.number = number;
    this.text = texts[number];
    this.row = 0;
    this.select.value = number;
    this.rows.setAttribute("aria-label", this.text.title);
    this.note.textContent = this.text.note || "";
    this.note.hidden = !this.text.note;
    this.inner.style.height = `${this.text.lines.length * ROW}px`;
    this.rows.scrollTop = 0;
    // A file of many kernels begins with the one that was compiled.
    if (this.text.source !== undefined) this.see(Math.max(0, this.text.rowOps.findIndex((ops) => ops.length)));
    else this.draw();
  }

  clicked(event) {
    const link = event.target.closest("a");
    if (link) { event.preventDefault(); showLayout(link.textContent); return; }
    const row = event.target.closest(".row");
    if (row) this.choose(+row.dataset.row);
  }

  choose(row) {
    this.row = Math.max(0, Math.min(this.text.lines.length - 1, row));
    focused = this;
    const ops = this.text.rowOps[this.row] || [];
    if (ops.length) go(ops[0], this, this.text.source === undefined ? ops[0] : 0);
    else redraw();
    this.see(this.row);
  }

  key(event) {
    const page = Math.floor(this.rows.clientHeight / ROW) - 1;
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      this.choose(Math.max(0, Math.min(this.text.lines.length - 1, this.row + step)));
    } else if (event.key === "n" || event.key === "p") {
      // The next or previous row of the same op, or source line.
      const found = this.nextOf(event.key === "n" ? 1 : -1);
      if (found >= 0) { this.row = found; this.see(found); this.draw(); }
    } else if (event.key === "/") {
      event.preventDefault();
      byId("find").focus();
    }
  }

  nextOf(step) {
    for (let row = this.row + step; row >= 0 && row < this.text.lines.length; row += step) if (this.state(row)) return row;
    return -1;
  }

  /** 2 where a row is of the current op, 1 where it is of the current line of the source. */
  state(row) {
    const ops = this.text.rowOps[row];
    if (!ops || !ops.length) return 0;
    if (current.op ? ops.includes(current.op) : current.place && ops.some((op) => placeOf(op) === current.place)) return 2;
    return current.place && ops.some((op) => placeOf(op) === current.place) ? 1 : 0;
  }

  see(row) {
    const top = row * ROW, height = this.rows.clientHeight;
    if (top < this.rows.scrollTop + ROW || top > this.rows.scrollTop + height - 2 * ROW) this.rows.scrollTop = Math.max(0, top - height / 3);
    this.draw();
  }

  follow() {
    let near = -1;
    for (let row = 0; row < this.text.lines.length; row++) {
      const state = this.state(row);
      if (state === 2) { near = row; break; }
      if (state === 1 && near < 0) near = row;
    }
    if (near >= 0) { this.row = near; this.see(near); } else this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.rows.scrollTop / ROW) - 20);
    const last = Math.min(this.text.lines.length, first + Math.ceil(this.rows.clientHeight / ROW) + 40);
    const made = document.createDocumentFragment();
    for (let k = first; k < last; k++) made.append(this.made(k));
    this.inner.replaceChildren(made);
    this.drawStrip();
  }

  made(k) {
    const ops = this.text.rowOps[k] || [], state = this.state(k);
    const row = make("div", { className: "row" + (state === 2 ? " same" : state === 1 ? " near" : "") + (k === this.row && focused === this ? " at" : "") });
    row.dataset.row = k;
    row.style.top = `${k * ROW}px`;
    if (ops.length) row.style.background = color(ops[0]);
    row.append(make("i", { textContent: k + 1 }));
    this.text.lines[k].split(/(#layout\d+)/).forEach((part, n) => row.append(n % 2 ? make("a", { href: "#", textContent: part }) : part));
    const remarks = remarksOfRow.get(`${this.number}:${k}`) || [];
    // In the margin, where it is seen in a narrow pane as well; two at most.
    for (const kind of [...new Set(remarks.map((r) => r.kind.toLowerCase()))].slice(0, 2)) row.append(make("span", { className: `dot ${kind}`, title: kind }));
    for (const remark of remarks) {
      const from = data.compilations.length > 1 ? data.compilations[remark.compilation].title + "\n" : "";
      row.append(make("span", { className: `remark ${remark.kind.toLowerCase()}`, textContent: remark.message, title: from + [remark.name, ...remark.arguments].join("\n") }));
    }
    return row;
  }

  markRow() {
    for (const row of this.inner.children) row.classList.toggle("at", +row.dataset.row === this.row && focused === this);
  }

  drawStrip() {
    const context = this.strip.getContext("2d"), height = (this.strip.height = this.strip.clientHeight || 1);
    this.strip.width = 12;
    const scale = height / Math.max(1, this.text.lines.length);
    const style = getComputedStyle(document.body);
    context.fillStyle = style.getPropertyValue("color");
    context.globalAlpha = 0.15;
    context.fillRect(0, (this.rows.scrollTop / ROW) * scale, 12, Math.max(2, (this.rows.clientHeight / ROW) * scale));
    context.globalAlpha = 1;
    for (let k = 0; k < this.text.lines.length; k++) {
      const state = this.state(k);
      if (!state) continue;
      context.fillStyle = dark.matches ? "#ffc94d" : "#9a5b00";
      context.globalAlpha = state === 2 ? 1 : 0.35;
      context.fillRect(2, k * scale, 8, Math.max(1.5, scale));
    }
  }
}

const redraw = () => panes.forEach((pane) => pane.draw());

/** Make an op the current one; `exact` is 0 where the whole line of the source is meant. */
function go(op, from, exact = op) {
  current = { op: exact, place: placeOf(op) };
  for (const pane of panes) if (pane !== from) pane.follow(); else pane.draw();
  const place = data.places[op];
  byId("status").textContent = (place ? `${data.sources[place[0]].path}:${place[1]}:${place[2]}  ` : "") + `op ${op}`;
  remember();
}

function remember() {
  const shown = panes.map((p) => p.number).join(",");
  history.replaceState(null, "", `#op=${current.op || (opsOfPlace.get(current.place) || [0])[0]}&panes=${shown}`);
}

// ---- beside the panes ----------------------------------------------------------------------------------------------

const tabs = { Summary: summary, Remarks: remarks, Layouts: () => layouts(largestLayout()), "Shared memory": sharedMemory, Agents: agents, Keys: keys };
let open = "";
for (const name of Object.keys(tabs)) {
  const button = make("button", { textContent: name, role: "tab" });
  button.setAttribute("aria-selected", "false");
  button.onclick = () => openTab(open === name ? "" : name);
  byId("tabs").append(button);
}

function openTab(name, content) {
  open = name;
  for (const button of byId("tabs").children) button.setAttribute("aria-selected", String(button.textContent === name));
  byId("side").hidden = !name;
  byId("side").classList.toggle("wide", name === "Agents");
  if (name) byId("side").replaceChildren(...[].concat((content || tabs[name])()));
  redraw();
}

/** Columns that have numbers are aligned at their right, with what else they have and their heads. */
function table(head, rows) {
  const numeric = (column) => rows.some((row) => typeof row[column] === "number");
  const cells = (row, tag) => make("tr", {}, ...row.map((cell, n) => make(tag, { className: numeric(n) ? "number" : "" }, cell instanceof Node ? cell : String(cell))));
  return make("table", {}, ...(head ? [cells(head, "th")] : []), ...rows.map((row) => cells(row, "td")));
}

const amount = ([kind, count]) => `${count} ${count === 1 ? kind.replace(/(ch)es$|s$/, "$1") : kind}`;

function summary() {
  const out = [];
  for (const { name, title: called } of data.compilations[0].kernels) {
    const found = data.compilations.map((made) => made.kernels.find((k) => k.name === name));
    const line = (title, value) => [title, ...found.map((k) => (k ? value(k) : "-"))];
    out.push(make("h2", { textContent: called, title: name }));
    out.push(table(["", ...data.compilations.map((made) => made.title)], [
      line("registers a thread", (k) => k.registers), line("spills, bytes", (k) => k.spills),
      line("shared memory, bytes", (k) => k.shared), line("threads", (k) => k.threads),
      line("cluster", (k) => k.cluster.join("\u00d7")), line("instructions", (k) => k.instructions || "-"),
      line("CTAs an SM holds", (k) => k.ctas[k.limit]), line("  limited by", (k) => k.limit)]));
    data.compilations.forEach((made, number) => {
      const kernel = found[number], sass = textOf("sass", number);
      if (!kernel || !kernel.loops.length) return;
      out.push(make("h2", { textContent: `Innermost loops, ${made.title}` }));
      out.push(table(["from row", "instructions", "of which"], kernel.loops.map((loop) => [
        link(String(loop.first + 1), () => showRow(sass, loop.first)), loop.instructions,
        Object.entries(loop.counts).map(amount).join(", ")])));
    });
  }
  return out;
}

function link(text, action) {
  const button = make("button", { className: "link", textContent: text });
  button.onclick = action;
  return button;
}

function showRow(text, row) {
  let pane = panes.find((p) => p.number === text);
  if (!pane) { pane = panes[panes.length - 1]; pane.show(text); }
  pane.choose(row);
}

function remarks() {
  const rows = data.compilations.flatMap((made, number) => made.remarks.map((remark) => {
    const source = data.sources.findIndex((s) => s.path === remark.file);
    const where = remark.line ? `${remark.line}:${remark.column}` : "";
    const place = source >= 0 && remark.line ? link(where, () => showRow(source, remark.line - 1)) : where;
    const kind = make("span", { className: `remark ${remark.kind.toLowerCase()}`, textContent: remark.kind });
    const said = make("div", {}, remark.message, make("div", { className: "dim", textContent: remark.arguments.join("  ") }));
    return data.compilations.length > 1 ? [made.title, kind, place, said] : [kind, place, said];
  }));
  return rows.length ? table(null, rows) : make("p", { className: "dim", textContent: "There are no remarks." });
}

/** The layout of the largest tile, the first of them: what there is most to see of. */
function largestLayout() {
  const size = (name) => data.layouts[name].shape.reduce((a, b) => a * b, 1);
  return Object.keys(data.layouts).reduce((best, name) => (best && size(best) >= size(name) ? best : name), "");
}

function showLayout(name) { openTab("Layouts", () => layouts(name)); }

function layouts(name) {
  if (!name) return make("p", { className: "dim", textContent: "No stage has layouts." });
  const select = make("select", { ariaLabel: "Layout" }, ...Object.keys(data.layouts).map((n) => make("option", { textContent: n, selected: n === name })));
  select.onchange = () => openTab("Layouts", () => layouts(select.value));
  const { bases, shape } = data.layouts[name];
  const said = make("p", { className: "dim", textContent: `A colour is ${bases.warp ? "a warp, its shades the lanes" : "a row of 32 elements in memory"}. Point at an element to see who holds it.` });
  const facts = table(null, Object.entries(bases).map(([kind, vectors]) => [kind, vectors.map((v) => `[${v}]`).join(" ") || "none"]));
  return [make("h2", {}, select, ` ${shape.join("\u00d7") || "scalar"}`), facts, ...drawn(bases, shape, said), said];
}

/** A tile's last two dimensions, an element coloured by its warp and lane (or by its place in shared memory). */
function drawn(bases, shape, said) {
  if (!shape.length) return [];
  const rows = shape.length > 1 ? shape[shape.length - 2] : 1, columns = shape[shape.length - 1];
  const owners = new Map();
  const kinds = Object.keys(bases), counts = kinds.map((k) => 2 ** bases[k].length);
  const total = counts.reduce((a, b) => a * b, 1);
  if (total > 1 << 20) return [make("p", { className: "dim", textContent: "Too large to draw." })];
  for (let index = 0; index < total; index++) {
    const at = shape.map(() => 0), who = {};
    let rest = index;
    kinds.forEach((kind, n) => {
      who[kind] = rest % counts[n];
      rest = Math.floor(rest / counts[n]);
      bases[kind].forEach((vector, bit) => { if ((who[kind] >> bit) & 1) vector.forEach((v, d) => { at[d] ^= v; }); });
    });
    if (at.slice(0, -2).some((v) => v)) continue;
    const key = (at.length > 1 ? at[at.length - 2] : 0) * columns + at[at.length - 1];
    if (!owners.has(key)) owners.set(key, []);
    owners.get(key).push(who);
  }
  const size = Math.max(1, Math.min(16, Math.floor(412 / columns)));
  const canvas = make("canvas", { className: "layout", width: columns * size, height: rows * size });
  const context = canvas.getContext("2d");
  for (const [key, [who]] of owners) {
    const group = who.warp !== undefined ? who.warp : Math.floor((who.offset || 0) / 32);
    const inside = who.lane !== undefined ? who.lane : (who.offset || 0) % 32;
    context.fillStyle = `hsl(${(group * 137.508) % 360} 60% ${30 + (inside / 32) * 55}%)`;
    context.fillRect((key % columns) * size, Math.floor(key / columns) * size, size, size);
  }
  canvas.onmousemove = (event) => {
    const box = canvas.getBoundingClientRect();
    const column = Math.min(columns - 1, Math.floor(((event.clientX - box.left) / box.width) * columns));
    const row = Math.min(rows - 1, Math.floor(((event.clientY - box.top) / box.height) * rows));
    const held = owners.get(row * columns + column) || [];
    const names = held.slice(0, 4).map((who) => Object.entries(who).map(([k, v]) => `${k} ${v}`).join(", "));
    said.textContent = `[${shape.length > 1 ? row + ", " : ""}${column}]: ${names.join("; ") || "nobody"}${held.length > 4 ? ` and ${held.length - 4} more` : ""}`;
  };
  return [canvas];
}

function sharedMemory() {
  const out = [];
  data.compilations.forEach((made, number) => made.kernels.forEach((kernel) => {
    out.push(make("h2", { textContent: `${kernel.title}, ${made.title}` }));
    if (!kernel.rooms.length) { out.push(make("p", { className: "dim", textContent: "Nothing lies in shared memory." })); return; }
    const end = Math.max(...kernel.rooms.map((r) => r.offset + r.size));
    const first = Math.min(...kernel.rooms.map((r) => r.first)), last = Math.max(...kernel.rooms.map((r) => r.last)) + 1;
    const width = 400, height = Math.max(160, 16 * kernel.rooms.length), NS = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(NS, "svg");
    svg.setAttribute("viewBox", `0 0 ${width} ${height + 16}`);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", "Shared memory: bytes to the right, lines of nv_tileas downwards");
    const text = textOf("nv_tileas", number);
    for (const room of kernel.rooms) {
      const box = document.createElementNS(NS, "rect"), title = document.createElementNS(NS, "title");
      const y = ((room.first - first) / (last - first)) * height;
      const of = { x: (room.offset / end) * width, y, width: Math.max(2, (room.size / end) * width), height: Math.max(4, ((room.last + 1 - room.first) / (last - first)) * height), fill: color(room.op) || "gray", stroke: "currentColor" };
      for (const [name, value] of Object.entries(of)) box.setAttribute(name, value);
      title.textContent = `${room.what}: bytes ${room.offset} to ${room.offset + room.size}, lines ${room.first} to ${room.last}`;
      box.style.cursor = "pointer";
      box.onclick = () => showRow(text, room.first - 1);
      box.append(title);
      svg.append(box);
    }
    const label = document.createElementNS(NS, "text");
    label.setAttribute("y", height + 12);
    label.textContent = `0 to ${end} bytes; lines ${first} to ${last - 1} of nv_tileas, downwards`;
    svg.append(label);
    out.push(svg, table(["bytes", "op", "lines"], kernel.rooms.map((room) => [`${room.offset} - ${room.offset + room.size}`,
      link(room.what, () => showRow(text, room.first - 1)), `${room.first} - ${room.last}`])));
  }));
  return out;
}

function agents() {
  const out = [];
  for (const made of data.compilations) for (const kernel of made.kernels) {
    const picture = `data:image/svg+xml,${encodeURIComponent(kernel.timeline)}`;
    const drawn = make("img", { src: picture, alt: `What the agents of ${kernel.title} do, step by step` });
    out.push(make("h2", { textContent: `${kernel.title}, ${made.title}` }), drawn);
  }
  return out;
}

function keys() {
  return table(null, [["Tab", "to the next pane"], ["\u2191 \u2193 PageUp PageDown Home End", "choose a row; the other panes follow"],
    ["n p", "the next or previous row of the same op or line"], ["/", "find text in the pane; Enter for the next"], ["Esc", "close what is open beside the panes"]]);
}

byId("find").onkeydown = (event) => {
  if (event.key !== "Enter") return;
  const pane = focused || panes[0], wanted = event.target.value.toLowerCase(), lines = pane.text.lines;
  for (let k = 1; wanted && k <= lines.length; k++) {
    const row = (pane.row + k) % lines.length;
    if (lines[row].toLowerCase().includes(wanted)) { pane.choose(row); return; }
  }
  byId("status").textContent = `"${event.target.value}" is not in ${pane.text.title}`;
};
addEventListener("keydown", (event) => { if (event.key === "Escape") openTab(""); });
addEventListener("resize", redraw);
dark.addEventListener("change", redraw);
byId("add").onclick = () => { new Pane(tileIrText); panes[panes.length - 1].follow(); remember(); };

const asked = new URLSearchParams(location.hash.slice(1));
const chosen = (asked.get("panes") || "").split(",").filter((n) => n !== "" && texts[+n]).map(Number);
const usual = [data.sources.length ? 0 : tileIrText, textOf("nv_tileas"), textOf("ptx"), textOf("sass")];
for (const text of chosen.length ? chosen : usual.filter((n) => n >= 0)) new Pane(text);
if (+asked.get("op")) go(+asked.get("op"), null);
if (asked.get("tab") && tabs[asked.get("tab")]) openTab(asked.get("tab"));
