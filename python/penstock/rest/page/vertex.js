// The panel beside the graph: a vertex with its subtasks, or the records on an edge.

import { badge, bytes, count, duration, eventTime, h, moment, share, sparkline, table, time } from "./dom.js";
import { accumulators } from "./job.js";

const PARTS = [["subtasks", "Subtasks"], ["flame", "Flame graph"], ["metrics", "Metrics"],
  ["state", "State"], ["accumulators", "Accumulators"]];
const TOLD_BY_TASKS = new Set(["flame", "metrics", "state"]);

export function vertexPanel(state, job, plan) {
  const [id, part = "subtasks"] = state.route.rest;
  const vertex = plan.vertices.find((one) => one.id === id);
  if (!vertex) return null;
  const at = `#/jobs/${job.jid}/graph/${id}`;
  return h("aside", { class: "panel side", "data-key": id, "aria-label": `Vertex ${vertex.name}` },
    head(vertex.name, `#/jobs/${job.jid}/graph`),
    h("nav", { class: "tabs small", "aria-label": "Parts of the vertex" }, parts(state).map(([name, title]) =>
      h("a", { href: `${at}/${name}`, "aria-current": part === name ? "page" : null }, title))),
    part === "flame" ? flame(state, id)
      : part === "metrics" ? metrics(state)
        : part === "state" ? keyedState(state, plan, id)
        : part === "accumulators" ? accumulators(state.data.accumulators?.["user-accumulators"])
          : subtasks(state, id));
}

// Only running tasks report stacks and metrics; an archive has neither.
function parts({ config }) {
  return PARTS.filter(([name]) => !config?.features["web-history"] || !TOLD_BY_TASKS.has(name));
}

function head(title, back) {
  return h("div", { class: "panel-head" }, h("h2", {}, title),
    h("a", { class: "close", href: back, "aria-label": "Close", title: "Close (Escape)" }, "×"));
}

function subtasks({ data, live }, id) {
  const found = data.vertex;
  if (!found) return h("p", { class: "empty" }, "Loading …");
  const figures = live.job?.vertices.find((one) => one.id === id) ?? {};
  const held = figures["event-time-held"];
  const shares = new Map((data.backpressure?.subtasks ?? []).map((one) => [one.subtask, one]));
  const marks = new Map((data.watermarks ?? []).map((one) =>
    [Number(one.id.split(".")[0]), Number(one.value)]));
  const most = Math.max(1, ...found.subtasks.map(records));
  const number = (value) => Number.isFinite(value) ? share(value) : "–";
  const listed = table([
    ["#", (one) => one.subtask, "number"],
    ["State", (one) => [badge(one.status),
      one.attempt > 0 && h("span", { class: "below" }, `attempt ${one.attempt + 1}`)]],
    ["Records in, out", (one) => h("span", { class: "bar" },
      h("i", { style: { width: `${100 * records(one) / most}%` } }),
      both(count(one.metrics["read-records"]), count(one.metrics["write-records"]))), "number"],
    ["Bytes in, out", (one) => both(bytes(one.metrics["read-bytes"]),
      bytes(one.metrics["write-bytes"])), "number"],
    ["Busy", (one) => number(shares.get(one.subtask)?.busyRatio), "number"],
    ["Back pressured", (one) => number(shares.get(one.subtask)?.ratio), "number"],
    ["Idle", (one) => number(shares.get(one.subtask)?.idleRatio), "number"],
    ["Event time", (one) => {
      const mark = marks.get(one.subtask);
      const none = mark === undefined || mark < -9e18;
      if (none) return mark !== undefined && figures["has-event-time"] ? eventTime(null) : "–";
      return eventTime(mark, live.now);
    }, "wrapped"],
    ["Started, runs for", (one) => both(time(one["start-time"]), duration(one.duration)), "wrapped"],
    ["TaskExecutor", (one) => one["taskmanager-id"] === "(unassigned)" ? "–"
      : h("a", { class: "executor", href: `#/workers/${one["taskmanager-id"]}`,
        title: one["taskmanager-id"] }, shortName(one["taskmanager-id"]))],
  ], found.subtasks, { key: (one) => one.subtask, caption: "Subtasks", cards: true });
  return held ? h("div", {}, h("p", { role: "status" }, `Event time stands still: ${held}.`), listed)
    : listed;
}

// The end of an id, which tells TaskExecutors apart.
function shortName(id) {
  const name = id.replace(/^taskexecutor-/, "");
  return name.length > 9 ? `…${name.slice(-8)}` : name;
}

function both(first, second) {
  return [h("span", {}, first), h("span", { class: "below" }, second)];
}

function records(one) {
  return Math.max(one.metrics["read-records"], one.metrics["write-records"]);
}

const KINDS = [["full", "All"], ["on_cpu", "On CPU"], ["off_cpu", "Off CPU"]];

function flame(state, id) {
  const { flame: found, flameKind } = state;
  const problem = found?.vertex !== id ? "Loading …" : found.error ?? WORDS[found.endTimestamp];
  return h("div", {},
    h("div", { class: "section-head" },
      h("div", { class: "choice", role: "group", "aria-label": "Kind of stacks" },
        KINDS.map(([name, title]) => h("button", { type: "button", "data-action": "flame-kind",
          "data-kind": name, "aria-pressed": String(name === flameKind) }, title))),
      h("input", { type: "search", placeholder: "Find a function", "aria-label": "Find a function",
        "data-input": "flameFind" }),
      !problem && h("span", { class: "quiet" }, `${count(found.data.value)} samples, ${time(found.endTimestamp)}`)),
    !problem && found.note && h("p", { class: "quiet" }, `Only Python functions: ${found.note}.`),
    problem ? h("p", { class: "empty" }, problem)
      : h("div", { "data-keep": `flame-${id}-${flameKind}-${found.endTimestamp}`, class: "flame-place" }));
}

const WORDS = {
  "-1": "No task of this vertex is running.",
  "-2": "Flame graphs are off: start the job with -D rest.flamegraph.enabled=true.",
  "-3": "Sampling the tasks; this takes a few seconds …",
};

// A watermark is a time: it has no sum, and its subtasks no mean.
function isTime(one) {
  return one.id.endsWith("Watermark");
}

function inFull(ms) {
  return h("span", { class: "moment" }, moment(ms));
}

function metrics({ data, metricFind, metricValues, metricHistory, metricsChosen }) {
  if (!data.metricNames) return h("p", { class: "empty" }, "Loading …");
  const names = data.metricNames.map((one) => one.id);
  return h("div", {},
    h("div", { class: "section-head" },
      h("input", { type: "search", placeholder: `Find one of ${names.length} metrics`,
        "aria-label": "Find a metric", "data-input": "metricFind" }),
      h("span", { class: "quiet" }, "Choose a metric to chart it.")),
    [...metricsChosen].map((name) => chart(name, metricHistory.get(name) ?? [])),
    table([
      ["Metric", (one) => isTime(one) ? h("code", {}, one.id)
        : h("button", { type: "button", class: "choose", "data-action": "choose-metric",
          "data-name": one.id, "aria-pressed": String(metricsChosen.has(one.id)) },
        h("code", {}, one.id))],
      ["Recent sums", (one) => !isTime(one)
        && sparkline(metricHistory.get(one.id) ?? [], `Recent sums of ${one.id}`)],
      ["Sum", (one) => isTime(one) ? "" : count(one.sum), "number"],
      ["Min", (one) => isTime(one) ? inFull(one.min) : count(one.min), "number"],
      ["Max", (one) => isTime(one) ? inFull(one.max) : count(one.max), "number"],
      ["Mean", (one) => isTime(one) ? "" : count(one.avg), "number"],
      ["Skew", (one) => isTime(one) ? "" : `${Math.round(one.skew)} %`, "number"],
    ], metricValues, { key: (one) => one.id, caption: "Metrics", cards: true,
      empty: metricFind ? "No metric matches." : "No values yet." }));
}

// The sums of a metric since it was shown, with their range.
function chart(name, values) {
  const known = values.filter(Number.isFinite);
  return h("figure", { class: "chart", "data-key": name },
    h("figcaption", {}, h("code", {}, name), " ", count(known.at(-1)),
      h("span", { class: "quiet" },
        ` between ${count(Math.min(...known))} and ${count(Math.max(...known))}`)),
    sparkline(values, `Chart of ${name}`));
}

// The state of a key, requested from its task on demand.
function keyedState({ lookup, stateNames }, plan, id) {
  const node = plan.nodes.find((one) => one.id === id);
  const operators = node.description.split("<br/>").filter(Boolean)
    .map((text) => text.replace(/^\+- /, ""));
  const found = lookup.vertex === id ? lookup.found : null;
  const field = (name, label, hint, list) => h("label", {}, label, h("input", { type: "text",
    "data-lookup": name, placeholder: hint, autocomplete: "off", spellcheck: "false", list }));
  return h("form", { class: "lookup" },
    h("label", {}, "Operator", h("select", { "data-lookup": "operator" },
      operators.map((name) => h("option", { value: name }, name)))),
    stateNames && h("p", { class: "quiet" }, stateNames.problem ?? (stateNames.states.length
      ? ["States: ", stateNames.states.map((one, index) =>
        [index > 0 && ", ", h("code", {}, one.name), ` (${one.kind})`])]
      : "The operator has no keyed state.")),
    h("datalist", { id: "state-names" },
      (stateNames?.states ?? []).map((one) => h("option", { value: one.name }))),
    field("state", "State", "one of its states", "state-names"), field("key", "Key", "7, or (1, 'a')"),
    h("button", { type: "submit", class: "main", disabled: lookup.busy },
      lookup.busy ? "Loading …" : "Look up"),
    lookup.error && h("p", { class: "bad" }, lookup.error),
    found && found.redacted && h("p", { class: "quiet" }, "Types are shown instead of values."),
    found && found.key ? table([["Key", (one) => h("code", {}, one.key)],
      ["Window", (one) => h("code", {}, one.namespace || "–")],
      ["Value", (one) => h("code", { class: "record" }, one.text)]], found.values,
    { caption: "Values", empty: "The state has no value for this key." })
      : found && table([["State", (one) => one.name], ["Kind", (one) => one.kind]], found.states,
        { key: (one) => one.name, caption: "States", empty: "The operator has no keyed state." }));
}

export function recordsPanel(state, plan) {
  const { peek } = state;
  const found = peek.found;
  const rows = (found?.subtasks ?? []).flatMap(({ subtask, records }) =>
    records.map((record) => ({ subtask, ...record })));
  return h("aside", { class: "panel side", "data-key": "records", "aria-label": "Records" },
    h("div", { class: "panel-head" }, h("h2", {}, peek.label),
      h("button", { type: "button", class: "close", "data-action": "close-peek",
        "aria-label": "Close" }, "×")),
    h("div", { class: "section-head" },
      h("button", { type: "button", "data-action": "peek-again", disabled: peek.busy },
        peek.busy ? "Loading …" : "Refresh"),
      found?.redacted && h("span", { class: "quiet" }, "Types are shown instead of values.")),
    peek.error && h("p", { class: "bad" }, peek.error),
    found && table([
      ["Subtask", (one) => one.subtask, "number"],
      ["Timestamp", (one) => one.timestamp === null ? "–" : one.timestamp, "number"],
      ["Record", (one) => h("code", { class: "record" }, one.text)],
    ], rows, { caption: "Records", empty: "No record passed within two seconds." }));
}
