// Elements created from plain values; updates leave unchanged elements of the page alone.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "g", "path", "rect", "text", "title", "circle", "line", "polyline",
  "polygon", "tspan"]);

// h("p", {class: "x"}, "text", h("b", {}, "more")): null and false are left out; names that users
// choose become text, never markup.
export function h(tag, attributes = {}, ...children) {
  const isSvg = SVG_TAGS.has(tag);
  const element = isSvg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) add(element, child);
    else element.append(child instanceof Node ? child : String(child));
  }
}

// Makes one element equal to another.  An element with the attribute data-keep keeps its content;
// fields keep their input, and opened details stay open.
export function morph(now, next) {
  if (now.nodeType !== next.nodeType || now.nodeName !== next.nodeName ||
      now.dataset?.key !== next.dataset?.key || now.dataset?.keep !== next.dataset?.keep) {
    now.replaceWith(next);
    return;
  }
  if (now.nodeType === Node.TEXT_NODE) {
    if (now.data !== next.data) now.data = next.data;
    return;
  }
  for (const { name } of [...now.attributes]) {
    if (!next.hasAttribute(name) && name !== "open") now.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (name !== "open" && now.getAttribute(name) !== value) {
      // Styles are set through the style object: the page's policy forbids style attributes.
      if (name === "style") now.style.cssText = next.style.cssText;
      else now.setAttribute(name, value);
    }
  }
  if (now.dataset?.keep || now.nodeName === "INPUT") return;
  const fresh = [...next.childNodes];
  fresh.forEach((child, index) => {
    const old = now.childNodes[index];
    if (old) morph(old, child);
    else now.append(child);
  });
  while (now.childNodes.length > fresh.length) now.lastChild.remove();
}

export function count(value) {
  if (!Number.isFinite(value)) return "–";
  const steps = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  for (const [size, unit] of steps) {
    if (Math.abs(value) >= size) return `${digits(value / size)}\u2009${unit}`;
  }
  return digits(value);
}

function digits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : 2);
}

// A value in full, with its digits in groups; anything but a number is shown as it is.
export function exact(value) {
  return value === "" || !Number.isFinite(Number(value)) ? value
    : Number(value).toLocaleString("en-US", { maximumFractionDigits: 4 });
}

export function bytes(value) {
  if (!Number.isFinite(value) || value < 0) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${digits(value)} ${units[unit]}`;
}

export function duration(ms) {
  if (!Number.isFinite(ms) || ms < 0) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const s = Math.round(ms / 1000), m = Math.floor(s / 60), hours = Math.floor(m / 60);
  if (hours < 1) return `${m} min ${s % 60} s`;
  const days = Math.floor(hours / 24);
  return days < 1 ? `${hours} h ${m % 60} min` : `${days} d ${hours % 24} h`;
}

export function time(ms) {
  if (!Number.isFinite(ms) || ms <= 0) return "–";
  const at = new Date(ms), today = new Date();
  const clock = at.toLocaleTimeString([], { hour12: false });
  return at.toDateString() === today.toDateString() ? clock : `${at.toLocaleDateString()} ${clock}`;
}

// The date and the time of day, also of today.
export function date(ms) {
  const at = new Date(ms);
  return `${at.toLocaleDateString("sv-SE")} ${at.toLocaleTimeString("sv-SE")}`;
}

export function share(value) {
  return Number.isFinite(value) ? `${Math.round(100 * value)} %` : "–";
}

// An event time in full, in UTC; the least and the greatest one mean that there is none.
export function moment(ms) {
  if (!Number.isFinite(ms)) return "–";
  if (Math.abs(ms) > 8.64e15) return ms > 0 ? "at its end" : "none yet";
  return `${new Date(ms).toISOString().replace("T", " ").slice(0, 19)} UTC`;
}

// The delay of event time behind the clock; a time far from the clock is shown itself.
export function eventTime(watermark, now) {
  if (watermark === null || watermark === undefined) return "none yet";
  const behind = now - watermark;
  if (Math.abs(behind) > 10 * 365 * 86_400_000) return moment(watermark);
  return behind >= 0 ? `${duration(behind)} behind` : `${duration(-behind)} ahead`;
}

// The event time of a vertex; a vertex that uses no watermarks has none.
export function vertexEventTime(vertex, now) {
  if (vertex["event-time-held"]) return "stands still";
  const none = vertex.watermark === null || vertex.watermark === undefined;
  return none && !vertex["has-event-time"] ? "" : eventTime(vertex.watermark, now);
}

export function short(text, limit) {
  return text.length > limit ? `${text.slice(0, limit - 1)}…` : text;
}

// A table; columns are [title, cell of a row, class].  Cells are texts or elements.
// With `cards`, a narrow screen shows each row as a card of titled values.
export function table(columns, rows, { key, caption, empty = "Nothing yet.", attributes, cards } = {}) {
  if (rows.length === 0) return h("p", { class: "empty" }, empty);
  return h("div", { class: cards ? "scroll cards" : "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", {},
      caption && h("caption", { class: "unseen" }, caption),
      h("thead", {}, h("tr", {}, columns.map(([title, , kind]) =>
        h("th", { scope: "col", class: kind }, title)))),
      h("tbody", {}, rows.map((row, index) =>
        h("tr", { "data-key": key ? key(row) : index, ...(attributes?.(row) ?? {}) },
          columns.map(([title, cell, kind]) =>
            h("td", { class: kind, "data-title": cards ? title : null }, cell(row, index))))))));
}

export function badge(state) {
  return h("span", { class: `badge ${state.toLowerCase()}` }, state.toLowerCase().replace("_", " "));
}

// Recent values of a job or a task as a line; values may have gaps (null).
export function sparkline(values, label) {
  const width = 120, height = 28;
  const known = values.filter(Number.isFinite);
  const least = Math.min(0, ...known), range = Math.max(0, ...known) - least || 1;
  const points = values
    .map((value, index) => [index, value])
    .filter(([, value]) => Number.isFinite(value))
    .map(([index, value]) =>
      `${((index / Math.max(1, values.length - 1)) * width).toFixed(1)},` +
      `${(height - 2 - ((value - least) / range) * (height - 4)).toFixed(1)}`);
  return h("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": label, preserveAspectRatio: "none" },
    points.length > 1 && h("polygon", { points: `0,${height} ${points.join(" ")} ${width},${height}` }),
    points.length > 1 && h("polyline", { points: points.join(" ") }));
}
