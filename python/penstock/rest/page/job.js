// A job: its graph, its tabs and its actions.

import { badge, bytes, count, date, duration, h, share, sparkline, table, time, vertexEventTime } from "./dom.js";
import { checkpoints } from "./checkpoints.js";
import { heat } from "./graph.js";
import { tile } from "./overview.js";
import { recordsPanel, vertexPanel } from "./vertex.js";

export const TABS = [["graph", "Graph"], ["checkpoints", "Checkpoints"],
  ["exceptions", "Exceptions"], ["accumulators", "Accumulators"], ["config", "Configuration"]];
const ENDED = new Set(["FINISHED", "CANCELED", "FAILED", "SUSPENDED"]);

// The requests of a tab in addition to the pictures: paths by name.
export function needs({ job, tab, rest }) {
  const at = `/jobs/${job}`;
  if (tab === "checkpoints") {
    const [id, vertex] = rest;
    return {
      checkpoints: `${at}/checkpoints`,
      settings: `${at}/checkpoints/config`,
      ...(id && { details: `${at}/checkpoints/details/${id}` }),
      ...(id && vertex && { subtasks: `${at}/checkpoints/details/${id}/subtasks/${vertex}` }),
    };
  }
  if (tab === "exceptions") return { exceptions: `${at}/exceptions` };
  if (tab === "accumulators") return { accumulators: `${at}/accumulators` };
  if (tab === "config") return { config: `${at}/config`, options: `${at}/jobmanager/config` };
  const [vertex, part = "subtasks"] = rest;
  if (!vertex) return {};
  const v = `${at}/vertices/${vertex}`;
  if (part === "metrics") return { metricNames: `${v}/subtasks/metrics` };
  if (part === "accumulators") return { accumulators: `${v}/accumulators` };
  if (part === "flame") return {};
  return { vertex: v, backpressure: `${v}/backpressure`, watermarks: `${v}/watermarks` };
}

export function jobPage(state) {
  const { route, live, plans } = state;
  const plan = plans.get(route.job);
  const job = live?.job?.jid === route.job ? live.job : null;
  if (!job || !plan) {
    return h("p", { class: "empty" }, live ? "Waiting for the job …" : "Waiting for the cluster …");
  }
  return h("div", { class: "job" },
    h("header", { class: "job-head" },
      h("div", { class: "job-name" },
        h("h1", {}, job.name), badge(job.state),
        h("span", { class: "quiet" }, `for ${duration(job.duration)} since ${time(job["start-time"])}`),
        h("code", { class: "quiet" }, job.jid)),
      !ENDED.has(job.state) && state.config && actions(state.config.features)),
    tiles(state, job, plan),
    h("nav", { class: "tabs", "aria-label": "Parts of the job" },
      TABS.map(([name, title]) => h("a", { href: `#/jobs/${route.job}/${name}`,
        "aria-current": route.tab === name ? "page" : null }, title,
        name === "exceptions" && job.exceptions > 0 &&
          h("span", { class: "count" }, job.exceptions)))),
    content(state, job, plan));
}

function actions(features) {
  const mayCancel = features["web-cancel"];
  const mayRescale = features["web-rescale"];
  if (!mayCancel && !mayRescale) {
    return null;
  }
  const button = (action, title, kind = "") =>
    h("button", { type: "button", class: kind, "data-action": action }, title);
  return h("div", { class: "actions" },
    button("checkpoint", "Checkpoint"), button("savepoint", "Savepoint …"),
    mayRescale && button("rescale", "Rescale …"),
    mayCancel && button("stop", "Stop with savepoint …"),
    mayCancel && button("cancel", "Cancel …", "danger"));
}

function tiles({ history }, job, plan) {
  const past = history.get(job.jid) ?? [];
  const rate = (name) => past.map((one) => one[name]);
  const last = past.at(-1) ?? {};
  const { checkpoints } = job;
  return h("div", { class: "tiles" },
    tile("Records from sources", `${count(last.out)}/s`, null,
      sparkline(rate("out"), "Recent records from sources")),
    tile("Busiest task", share(last.busy), null, sparkline(rate("busy"), "Recent share of the busiest task")),
    tile("Most back pressured", share(last.pressed), null,
      sparkline(rate("pressed"), "Recent back pressure")),
    tile("Tasks", tasksRunning(job), null, h("span", { class: "quiet small" }, "running")),
    tile("Restarts", job.restarts),
    tile("Checkpoints", checkpoints.failed ? `${checkpoints.completed}, ${checkpoints.failed} failed`
      : checkpoints.completed,
      `#/jobs/${job.jid}/checkpoints`, h("span", { class: "quiet small" },
        checkpoints["last-duration"] === null ? "none yet"
          : `last ${duration(checkpoints["last-duration"])}, ${bytes(checkpoints["last-size"])}`)));
}

function tasksRunning(job) {
  const all = job.vertices.flatMap((vertex) => Object.entries(vertex.tasks));
  const running = all.filter(([name]) => name === "RUNNING").reduce((sum, [, n]) => sum + n, 0);
  return `${running} of ${all.reduce((sum, [, n]) => sum + n, 0)}`;
}

function content(state, job, plan) {
  const { route, data } = state;
  if (route.tab === "checkpoints") return checkpoints(state, plan);
  if (route.tab === "exceptions") return exceptions(data.exceptions);
  if (route.tab === "accumulators") {
    return accumulators(data.accumulators?.["user-task-accumulators"]);
  }
  if (route.tab === "config") return configuration(data);
  const [vertex] = route.rest;
  return h("div", {},
    h("div", { class: "graph-row" },
      h("div", { class: "graph-place", "data-keep": `graph-${job.jid}` }),
      state.peek ? recordsPanel(state, plan) : vertex ? vertexPanel(state, job, plan) : null),
    legend(),
    vertices(state, job, plan));
}

function legend() {
  const item = (kind, text) => h("span", {}, h("i", { class: kind }), text);
  return h("div", { class: "legend" },
    item("calm", "running"), item("hot", "busy (over 80 %)"), item("low", "back pressured (over 10 %)"),
    item("high", "back pressured (over 50 %)"), h("span", { class: "quiet" },
      "Bars: the largest share of time that a subtask is busy and back pressured. " +
      "Open a vertex to see its subtasks, an edge to see its records."));
}

const ORDERS = {
  name: (a, b) => a.name.localeCompare(b.name),
  busy: (a, b) => (b.busy ?? -1) - (a.busy ?? -1),
  pressed: (a, b) => (b["back-pressured"] ?? -1) - (a["back-pressured"] ?? -1),
  skew: (a, b) => (b.skew ?? -1) - (a.skew ?? -1),
  in: (a, b) => (b["in-rate"] ?? -1) - (a["in-rate"] ?? -1),
  out: (a, b) => (b["out-rate"] ?? -1) - (a["out-rate"] ?? -1),
};

function vertices(state, job, plan) {
  const names = new Map(plan.vertices.map((vertex) => [vertex.id, vertex]));
  const rows = job.vertices
    .map((vertex) => ({ ...vertex, ...pick(names.get(vertex.id), ["name", "parallelism"]) }))
    .filter((vertex) => vertex.name?.toLowerCase().includes(state.find.toLowerCase()));
  if (ORDERS[state.order]) rows.sort(ORDERS[state.order]);
  return h("section", {},
    h("div", { class: "section-head" }, h("h2", {}, `Vertices (${job.vertices.length})`),
      h("input", { type: "search", placeholder: "Find a vertex", "aria-label": "Find a vertex",
        "data-input": "find" }),
      h("label", {}, "Order ", h("select", { "data-input": "order", "aria-label": "Order" },
        [["flow", "by flow"], ["busy", "busiest first"], ["pressed", "back pressured first"],
          ["skew", "most skewed first"], ["in", "most records in"], ["out", "most records out"],
          ["name", "by name"]].map(([value, title]) =>
          h("option", { value, selected: value === state.order }, title))))),
    table([
      ["", (v) => h("i", { class: `dot ${heat(v)}` })],
      ["Name", (v) => h("a", { href: `#/jobs/${job.jid}/graph/${v.id}`, title: v.name }, v.name), "name"],
      ["State", (v) => badge(v.status)],
      ["×", (v) => v.parallelism, "number"],
      ["In", (v) => `${count(v["in-rate"])}/s`, "number"],
      ["Out", (v) => `${count(v["out-rate"])}/s`, "number"],
      ["Records in", (v) => count(v["read-records"]), "number"],
      ["Records out", (v) => count(v["write-records"]), "number"],
      ["Bytes in", (v) => bytes(v["read-bytes"]), "number"],
      ["Busy", (v) => share(v.busy), "number"],
      ["Back pressured", (v) => share(v["back-pressured"]), "number"],
      ["Skew", (v) => v.skew === null ? "–" : `${Math.round(v.skew)} %`, "number"],
      ["Event time", (v) => h("span", { title: v["event-time-held"] || null },
        vertexEventTime(v, state.live.now) || "–")],
    ], rows, { key: (v) => v.id, caption: "Vertices", cards: true, empty: "No vertex name matches." }));
}

function pick(from, names) {
  return Object.fromEntries(names.map((name) => [name, from?.[name]]));
}

function exceptions(found) {
  if (!found) return h("p", { class: "empty" }, "Loading …");
  const { entries, truncated } = found.exceptionHistory;
  if (!entries.length) return h("p", { class: "empty" }, "Nothing has failed.");
  return h("div", {}, entries.map((entry) => failure(entry)),
    truncated && h("p", { class: "quiet" }, "Older failures have been dropped."));
}

function failure(entry) {
  const lines = entry.stacktrace.trimEnd().split("\n");
  const labels = entry.failureLabels ?? {};
  return h("article", { class: "failure", "data-key": entry.timestamp },
    h("h3", {}, lines.at(-1)),
    h("dl", { class: "facts" },
      fact("Repeated", labels.repeated),
      fact("When", date(entry.timestamp)), fact("Task", entry.taskName),
      fact("Operator", labels.operator), fact("Created at", labels.location),
      fact("TaskExecutor", entry.taskManagerId && h("a", {
        href: `#/workers/${entry.taskManagerId}/log`, title: "Its log" }, entry.taskManagerId)),
      fact("At", entry.endpoint)),
    h("pre", { class: "trace", tabindex: 0 }, lines.map((line) => h("span", {
      class: /^\s+File "/.test(line) ? "place" : /^\s{4}/.test(line) ? "source" : "" }, `${line}\n`))),
    entry.concurrentExceptions?.length > 0 && h("details", {},
      h("summary", {}, `${entry.concurrentExceptions.length} more at the same time`),
      entry.concurrentExceptions.map((other) => failure(other))));
}

function fact(name, value) {
  return value ? [h("dt", {}, name), h("dd", {}, value)] : null;
}

export function accumulators(found) {
  if (!found) return h("p", { class: "empty" }, "Loading …");
  return table([["Name", (one) => one.name], ["Type", (one) => one.type],
    ["Value", (one) => h("code", {}, one.value)]], found,
  { key: (one) => one.name, caption: "Accumulators", empty: "The job has no accumulators." });
}

function configuration({ config, options }) {
  if (!config || !options) return h("p", { class: "empty" }, "Loading …");
  const { "user-config": user, ...execution } = config["execution-config"];
  const pairs = (found) => table([["Option", ([key]) => h("code", {}, key)],
    ["Value", ([, value]) => String(value), "value"]],
    found, { key: ([key]) => key, caption: "Options", cards: true });
  return h("div", {},
    h("h2", {}, "Execution"), pairs(Object.entries(execution)),
    h("h2", {}, "Parameters of the job"), pairs(Object.entries(user)),
    h("h2", {}, "Options"), pairs(options.map((one) => [one.key, one.value])));
}
