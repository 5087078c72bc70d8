// A flame graph, the outermost call on top; widths are sample counts.

import { h, short } from "./dom.js";

const ROW = 20, LEAST = 0.002;

export class Flame {
  constructor(data) {
    this.root = this.zoomed = data;
    this.element = h("div", { class: "flame" });
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.element);
    this.word = "";
  }

  find(word) {
    this.word = word.toLowerCase();
    this.draw();
  }

  draw() {
    const width = this.element.clientWidth;
    if (!width) return;
    const path = this.path(this.root, this.zoomed);
    const boxes = [];
    path.forEach((node, depth) => boxes.push(this.box(node, 0, width, depth, width)));
    const below = (node, x, depth) => {
      let at = x;
      for (const child of node.children) {
        const size = width * child.value / this.zoomed.value;
        if (size >= width * LEAST) {
          boxes.push(this.box(child, at, size, depth, width));
          below(child, at, depth + 1);
        }
        at += size;
      }
    };
    below(this.zoomed, 0, path.length);
    const depth = Math.max(...boxes.map((box) => Number(box.dataset.depth))) + 1;
    const focused = this.element.contains(document.activeElement);
    this.element.replaceChildren(h("svg", { width, height: depth * ROW, role: "tree",
      "aria-label": "Flame graph" }, boxes));
    if (focused) this.element.querySelector(`[data-depth="${path.length - 1}"]`)?.focus();
  }

  box(node, x, width, depth, all) {
    const part = `${(100 * node.value / this.root.value).toFixed(1)} %`;
    const label = `${node.name}: ${node.value} times, ${part}`;
    const found = this.word && node.name.toLowerCase().includes(this.word);
    const element = h("g", { class: `frame hue${hue(node.name)}${found ? " found" : ""}`,
      tabindex: width > all / 60 ? 0 : -1, role: "treeitem", "aria-label": label,
      "data-depth": depth, transform: `translate(${x.toFixed(1)},${depth * ROW})` },
      h("title", {}, label),
      h("rect", { width: Math.max(0.5, width - 1).toFixed(1), height: ROW - 1, rx: 2 }),
      width > 34 && h("text", { x: 5, y: 14 }, short(shown(node.name), Math.floor((width - 8) / 7))));
    const act = () => {
      this.zoomed = node === this.zoomed ? this.root : node;
      this.draw();
    };
    element.addEventListener("click", act);
    element.addEventListener("keydown", (event) => {
      if (event.key === "Enter") act();
    });
    return element;
  }

  path(from, to) {
    if (from === to) return [from];
    for (const child of from.children) {
      const found = this.path(child, to);
      if (found.length) return [from, ...found];
    }
    return [];
  }
}

function shown(name) {
  // A function's name says more than its place.
  const [place, line] = name.split(/:(?=\d+$)/);
  if (line) return `${place.split(".").slice(-2).join(".")}:${line}`;
  const native = name.match(/^([^ ]+) \(/);
  return native ? native[1].split(/\.|::/).slice(-2).join(".") : name;
}

function hue(name) {
  // Names of native functions end with their library.
  if (name.endsWith(")")) return "native";
  const module = name.split(":")[0].split(".").slice(0, -1).join(".");
  let sum = 0;
  for (const letter of module) sum = (sum * 31 + letter.charCodeAt(0)) % 997;
  return name.startsWith("penstock.") ? "own" : sum % 5;
}
