// The job's graph: drawn once, then only its figures change.  It is panned and zoomed by mouse,
// touch and keys; zoomed out, a vertex shows its name and colour, zoomed in, all its figures.

import { count, h, share, short, vertexEventTime } from "./dom.js";
import { layout } from "./layout.js";

const WIDTH = 236, HEIGHT = 118, FAR = 0.55, READABLE = 0.5, LEAST = 0.05, MOST = 2.5;
const MARGIN = 24, CONTROLS = 50;  // around the graph; the zoom buttons are at its right
const SIDES = MARGIN + CONTROLS;
const BAR = WIDTH - 28;

export class Graph {
  // `chosen(vertexId)` and `peeked(edge)` are called when the user opens a vertex or an edge.
  constructor(plan, vertices, { chosen, peeked }) {
    this.nodes = [...plan.nodes].reverse();
    this.names = new Map(vertices.map((vertex) => [vertex.id, vertex.name]));
    this.chosen = chosen;
    this.peeked = peeked;
    this.figures = new Map();
    this.boxes = new Map();
    this.content = h("g", {});
    this.svg = h("svg", { class: "graph", tabindex: 0, role: "group",
      "aria-label": "Job graph: arrow keys move, plus and minus zoom, 0 shows the whole graph" },
      this.content);
    this.map = h("svg", { class: "minimap", "aria-hidden": "true" });
    this.element = h("div", { class: "stage" }, this.svg, this.controls(), this.map);
    this.listen();
    this.observer = new ResizeObserver(() => this.resized());
    this.observer.observe(this.element);
  }

  controls() {
    const button = (name, label, act) => {
      const made = h("button", { type: "button", title: label, "aria-label": label }, name);
      made.addEventListener("click", act);
      return made;
    };
    return h("div", { class: "zoom" },
      button("+", "Zoom in", () => this.zoom(1.3)),
      button("−", "Zoom out", () => this.zoom(1 / 1.3)),
      button("⤢", "Show the whole graph", () => this.fit()));
  }

  resized() {
    const { clientWidth: width, clientHeight: height } = this.element;
    if (!width || !height) return;
    const downwards = width < 620;
    if (this.downwards !== downwards) {
      this.downwards = downwards;
      this.draw();
      this.begin();
      this.update(this.figures, this.now);
    } else if (!this.touched) {
      this.begin();
    }
    if (this.open && !this.touched && !this.isSeen(this.open)) this.show(this.open);
    this.moved();
  }

  draw() {
    const down = this.downwards;
    const size = down
      ? { length: HEIGHT, breadth: WIDTH, gapLength: 46, gapBreadth: 22 }
      : { length: WIDTH, breadth: HEIGHT, gapLength: 92, gapBreadth: 26 };
    const found = layout(this.nodes, size);
    const at = ({ along, across }) => down ? [across, along] : [along, across];
    this.places = new Map([...found.places].map(([id, place]) => {
      const [x, y] = at(place);
      return [id, down ? { x: x - WIDTH / 2, y } : { x, y: y - HEIGHT / 2 }];
    }));
    [this.width, this.height] = down
      ? [found.breadth, found.length] : [found.length, found.breadth];
    const edges = found.edges.map((edge) => this.edge(edge, edge.points.map(([along, across]) =>
      at({ along, across }))));
    const boxes = this.nodes.map((node) => this.box(node));
    this.content.replaceChildren(...edges.map(([line]) => line), ...boxes,
      ...edges.map(([, peek]) => peek));
    this.drawMap();
  }

  edge(edge, points) {
    const down = this.downwards;
    let path = `M${points[0]}`;
    for (let step = 1; step < points.length; step += 1) {
      const [x1, y1] = points[step - 1], [x2, y2] = points[step];
      path += step % 2 === 0 ? `L${x2},${y2}`
        : down ? `C${x1},${(y1 + y2) / 2} ${x2},${(y1 + y2) / 2} ${x2},${y2}`
          : `C${(x1 + x2) / 2},${y1} ${(x1 + x2) / 2},${y2} ${x2},${y2}`;
    }
    const [x1, y1] = points.at(-2), [x2, y2] = points.at(-1);
    const x = (x1 + x2) / 2, y = (y1 + y2) / 2;
    const from = this.names.get(edge.from) ?? edge.from, to = this.names.get(edge.to) ?? edge.to;
    const strategy = (edge.input.ship_strategy ?? "").toLowerCase();
    const label = `Records from ${from} to ${to} (${strategy})`;
    const peek = h("g", { class: "peek", tabindex: 0, role: "button", "aria-label": label },
      h("title", {}, label),
      h("rect", { x: x - 34, y: y - 10, width: 68, height: 20, rx: 10 }),
      h("text", { x, y: y + 4, "text-anchor": "middle" }, short(strategy || "edge", 11)));
    activated(peek, () => this.peeked({ from: edge.from, to: edge.to, number: edge.index, label }));
    return [h("path", { class: "edge", d: path }), peek];
  }

  box(node) {
    const { x, y } = this.places.get(node.id);
    const name = this.names.get(node.id) ?? node.id;
    const text = (line, y, kind, anchor = "start", at = 14) =>
      h("text", { class: kind, x: at, y, "text-anchor": anchor }, line);
    const parts = {
      state: text("", 38, "detail small"),
      rates: text("", 58, "detail"),
      busy: h("rect", { class: "busy", x: 14, y: 68, height: 8, width: 0 }),
      pressed: h("rect", { class: "pressed", x: 14, y: 68, height: 8, width: 0 }),
      shares: text("", 92, "detail small"),
      event: text("", 108, "detail small"),
    };
    const element = h("g", { class: "vertex", tabindex: 0, role: "button",
      transform: `translate(${x},${y})`, "data-vertex": node.id },
      h("title", {}, name),
      h("rect", { class: "card", width: WIDTH, height: HEIGHT, rx: 8 }),
      h("rect", { class: "stripe", width: 5, height: HEIGHT - 16, x: 0, y: 8, rx: 2 }),
      text(short(name, 22), 21, "detail name"),
      parts.state, parts.rates,
      h("rect", { class: "track", x: 14, y: 68, width: BAR, height: 8, rx: 3 }),
      parts.busy, parts.pressed, parts.shares, parts.event,
      wrapped(name, 14, 4).map((line, index) =>
        h("text", { class: "afar", x: 16, y: 32 + 24 * index }, line)));
    activated(element, () => this.chosen(node.id));
    this.boxes.set(node.id, { element, parts, name, parallelism: node.parallelism });
    return element;
  }

  // figures: by vertex id, the figures of the REST interface.
  update(figures, now) {
    this.figures = figures;
    this.now = now;
    for (const [id, { element, parts, name, parallelism }] of this.boxes) {
      const found = figures.get(id);
      if (!found) continue;
      const busy = bounded(found.busy), pressed = bounded(found["back-pressured"]);
      element.setAttribute("class",
        `vertex ${heat(found)} ${found.status.toLowerCase()}${id === this.open ? " open" : ""}`);
      const state = `${found.status.toLowerCase()} · ×${parallelism}` +
        (found.skew > 20 ? ` · skew ${Math.round(found.skew)} %` : "");
      const rates = `${count(found["in-rate"])} → ${count(found["out-rate"])} rec/s`;
      const shares = `busy ${share(found.busy)} · pressed ${share(found["back-pressured"])}`;
      const at = vertexEventTime(found, now), event = at && `event time ${at}`;
      set(parts.state, state);
      set(parts.rates, rates);
      set(parts.shares, shares);
      set(parts.event, event);
      parts.busy.setAttribute("width", BAR * Math.min(busy, 1 - pressed));
      parts.pressed.setAttribute("width", BAR * pressed);
      parts.pressed.setAttribute("x", 14 + BAR * Math.min(busy, 1 - pressed));
      const held = found["event-time-held"];
      element.firstElementChild.textContent = held ? `${name}: event time stands still, ${held}` : name;
      element.setAttribute("aria-label",
        [`${name}: ${state}`, rates, shares, event, held].filter(Boolean).join(", "));
    }
    for (const one of this.map.querySelectorAll("[data-vertex]")) {
      const found = figures.get(one.dataset.vertex);
      if (found) one.setAttribute("class", `${heat(found)} ${found.status.toLowerCase()}`);
    }
  }

  mark(id) {
    this.open = id;
    for (const [one, { element }] of this.boxes) element.classList.toggle("open", one === id);
  }

  // ---- the visible part --------------------------------------------------------------------

  isSeen(id) {
    const { x, y } = this.places.get(id) ?? { x: 0, y: 0 };
    const left = this.x + x * this.scale, top = this.y + y * this.scale;
    return left >= 0 && top >= 0 && left + WIDTH * this.scale <= this.element.clientWidth &&
      top + HEIGHT * this.scale <= this.element.clientHeight;
  }

  begin() {
    const width = this.element.clientWidth;
    // As high as the graph needs, within the window's height.
    const most = Math.max(320, window.innerHeight * (this.downwards ? 0.62 : 0.56));
    const ratio = Math.min(1, (width - SIDES) / this.width);
    const wanted = ratio < READABLE ? most : this.height * ratio + 100;
    const height = Math.min(most, Math.max(280, wanted));
    this.element.style.height = `${height}px`;
    if (this.whole(width, height) >= READABLE) {
      this.fit();
      return;
    }
    // Too large to be shown whole: begin at the sources, at the smallest readable scale.
    this.scale = READABLE;
    this.x = MARGIN;
    this.y = Math.min(24, (height - this.height * this.scale) / 2);
    const sources = this.nodes.filter((node) => !(node.inputs ?? []).length);
    if (this.height * this.scale > height && sources.length) {
      const { y } = this.places.get(sources[0].id);
      this.y = this.downwards ? 24 : height / 2 - (y + HEIGHT / 2) * this.scale;
    }
    this.moved();
  }

  // The scale at which the whole graph is visible beside the buttons.
  whole(width, height) {
    return Math.min(1, (width - SIDES) / this.width, (height - 2 * MARGIN) / this.height);
  }

  fit() {
    const { clientWidth: width, clientHeight: height } = this.element;
    this.scale = Math.max(LEAST, this.whole(width, height));
    this.x = Math.max(0, width - SIDES - this.width * this.scale) / 2 + MARGIN;
    this.y = (height - this.height * this.scale) / 2;
    this.moved();
  }

  zoom(factor, at) {
    this.touched = true;
    const { clientWidth: width, clientHeight: height } = this.element;
    const [x, y] = at ?? [width / 2, height / 2];
    const scale = Math.min(MOST, Math.max(LEAST, this.scale * factor));
    this.x = x - (x - this.x) * scale / this.scale;
    this.y = y - (y - this.y) * scale / this.scale;
    this.scale = scale;
    this.moved();
  }

  show(id) {
    const place = this.places?.get(id);
    if (!place) return;
    const { clientWidth: width, clientHeight: height } = this.element;
    this.scale = Math.max(this.scale, 0.8);
    this.x = width / 2 - (place.x + WIDTH / 2) * this.scale;
    this.y = height / 2 - (place.y + HEIGHT / 2) * this.scale;
    this.moved();
  }

  moved() {
    if (this.scale === undefined) return;
    const { clientWidth: width, clientHeight: height } = this.element;
    // Never out of sight.
    this.x = Math.min(width - 60, Math.max(60 - this.width * this.scale, this.x));
    this.y = Math.min(height - 60, Math.max(60 - this.height * this.scale, this.y));
    this.content.setAttribute("transform", `translate(${this.x},${this.y}) scale(${this.scale})`);
    this.svg.classList.toggle("far", this.scale < FAR);
    const whole = this.x >= 0 && this.y >= 0 && this.x + this.width * this.scale <= width &&
      this.y + this.height * this.scale <= height;
    this.map.classList.toggle("unneeded", whole);
    if (this.view) {
      this.view.setAttribute("x", -this.x / this.scale);
      this.view.setAttribute("y", -this.y / this.scale);
      this.view.setAttribute("width", width / this.scale);
      this.view.setAttribute("height", height / this.scale);
    }
  }

  drawMap() {
    this.map.setAttribute("viewBox", `-40 -40 ${this.width + 80} ${this.height + 80}`);
    this.view = h("rect", { class: "view" });
    this.map.replaceChildren(...this.nodes.map((node) => h("rect", { ...this.places.get(node.id),
      width: WIDTH, height: HEIGHT, "data-vertex": node.id })), this.view);
  }

  listen() {
    const pointers = new Map();
    let moved = false;
    this.svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      const box = this.svg.getBoundingClientRect();
      this.zoom(Math.exp(-event.deltaY / 400), [event.clientX - box.left, event.clientY - box.top]);
    }, { passive: false });
    this.svg.addEventListener("pointerdown", (event) => {
      pointers.set(event.pointerId, event);
      moved = false;
    });
    this.svg.addEventListener("pointermove", (event) => {
      const last = pointers.get(event.pointerId);
      if (!last) return;
      const dx = event.clientX - last.clientX, dy = event.clientY - last.clientY;
      if (!moved && Math.hypot(dx, dy) < 4) return;
      if (!moved) this.svg.setPointerCapture(event.pointerId);
      moved = true;
      const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, one]) => one);
      if (other) {  // two fingers
        const box = this.svg.getBoundingClientRect();
        const before = Math.hypot(last.clientX - other.clientX, last.clientY - other.clientY);
        const behind = Math.hypot(event.clientX - other.clientX, event.clientY - other.clientY);
        this.zoom(behind / Math.max(1, before), [(event.clientX + other.clientX) / 2 - box.left,
          (event.clientY + other.clientY) / 2 - box.top]);
      } else {
        this.touched = true;
        this.x += dx;
        this.y += dy;
        this.moved();
      }
      pointers.set(event.pointerId, event);
    });
    for (const name of ["pointerup", "pointercancel"]) {
      this.svg.addEventListener(name, (event) => pointers.delete(event.pointerId));
    }
    this.svg.addEventListener("click", (event) => {
      if (moved) event.stopPropagation();  // the end of a drag opens nothing
    }, true);
    this.svg.addEventListener("keydown", (event) => {
      const step = 60;
      const acts = {
        "+": () => this.zoom(1.3), "=": () => this.zoom(1.3), "-": () => this.zoom(1 / 1.3),
        0: () => this.fit(), ArrowLeft: () => { this.x += step; },
        ArrowRight: () => { this.x -= step; }, ArrowUp: () => { this.y += step; },
        ArrowDown: () => { this.y -= step; },
      };
      if (event.ctrlKey || event.metaKey || event.altKey || !acts[event.key]) return;
      event.preventDefault();
      this.touched = true;
      acts[event.key]();
      this.moved();
    });
    this.svg.addEventListener("focusin", (event) => {
      // Bring the focused vertex into view.
      const id = event.target.dataset?.vertex;
      if (id && event.target.matches(":focus-visible")) this.show(id);
    });
    this.map.addEventListener("pointerdown", (event) => {
      const box = this.map.getBoundingClientRect();
      const scale = Math.max((this.width + 80) / box.width, (this.height + 80) / box.height);
      const x = (event.clientX - box.left - box.width / 2) * scale + this.width / 2;
      const y = (event.clientY - box.top - box.height / 2) * scale + this.height / 2;
      this.x = this.element.clientWidth / 2 - x * this.scale;
      this.y = this.element.clientHeight / 2 - y * this.scale;
      this.moved();
    });
  }
}

// The condition of a vertex in one word: a busy vertex is not a back pressured one.
export function heat(found) {
  if (found["back-pressured"] > 0.5) return "high";
  if (found["back-pressured"] > 0.1) return "low";
  if (found.busy > 0.8) return "hot";
  return found.busy === null || found.busy === undefined ? "unknown" : "calm";
}

function activated(element, act) {
  element.addEventListener("click", act);
  element.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      act();
    }
  });
}

function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function bounded(value) {
  return Math.min(1, Math.max(0, value ?? 0));
}

function wrapped(text, width, most) {
  const lines = [];
  for (const word of text.split(/(?<=[ ,>/_-])/)) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + word.length <= width + 1) lines[lines.length - 1] += word;
    else lines.push(short(word, width + 2));
  }
  return lines.length > most ? [...lines.slice(0, most - 1), "…"] : lines;
}
