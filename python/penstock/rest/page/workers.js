// The TaskExecutors, and the driver: memory, logs, threads.

import { bytes, duration, exact, h, share, table, time } from "./dom.js";
import { tile } from "./overview.js";

const WORKER_TABS = [["metrics", "Metrics"], ["log", "Log"], ["threads", "Threads"]];
const CLUSTER_TABS = [["config", "Configuration"], ["metrics", "Metrics"], ["log", "Log"],
  ["threads", "Threads"], ["environment", "Environment"]];

export function needs({ page, id, tab }) {
  if (page === "workers" && !id) return { workers: "/taskmanagers" };
  const at = page === "workers" ? `/taskmanagers/${id}` : "/jobmanager";
  if (tab === "log") return {};  // a lost TaskExecutor has nothing else
  const own = page === "workers"
    ? { worker: at, load: `${at}/metrics?get=Status.JVM.CPU.Load` } : {};
  if (tab === "threads") return { ...own, threads: `${at}/thread-dump` };
  if (tab === "config") return { ...own, options: `${at}/config` };
  if (tab === "environment") return { ...own, environment: `${at}/environment` };
  if (tab === "metrics") return { ...own, names: `${at}/metrics` };
  return own;
}

export function workers({ data, live }) {
  if (!data.workers) return h("p", { class: "empty" }, "Loading …");
  return h("div", {}, h("h1", {}, "TaskExecutors"),
    table([
      ["Id", (one) => h("a", { href: `#/workers/${one.id}` }, one.id)],
      ["Slots", (one) => `${one.freeSlots} of ${one.slotsNumber} free`, "number"],
      ["Tasks", (one) => one.assignedTasks, "number"],
      ["CPU", (one) => share(one.cpuLoad), "number"],
      ["Memory", (one) => bytes(one.memoryUsed), "number"],
      ["Cores", (one) => one.hardware.cpuCores, "number"],
      ["Machine memory", (one) => bytes(one.hardware.physicalMemory), "number"],
      ["Free", (one) => bytes(one.hardware.freeMemory), "number"],
      ["Buffers", (one) => bytes(one.memoryConfiguration.networkMemory), "number"],
      ["Last heartbeat", (one) => `${duration(Math.max(0, live.now - one.timeSinceLastHeartbeat))} ago`, "number"],
      ["Address", (one) => h("code", {}, one.path)],
    ], data.workers.taskmanagers, { key: (one) => one.id, caption: "TaskExecutors", cards: true,
      empty: "No TaskExecutor is registered." }),
    data.workers.lost.length > 0 && [h("h2", {}, "Logs of lost TaskExecutors"),
      h("ul", {}, data.workers.lost.map((id) => h("li", {}, h("a", { href: `#/workers/${id}/log` }, id))))]);
}

export function worker(state) {
  const { route, data } = state;
  const found = data.worker?.id === route.id ? data.worker : null;
  return h("div", {},
    h("p", {}, h("a", { href: "#/workers" }, "← TaskExecutors")),
    h("h1", {}, route.id),
    found && usage(found, Number(data.load?.[0]?.value)),
    tabs(WORKER_TABS, `#/workers/${route.id}`, route.tab),
    process(state));
}

function usage(found, load) {
  const { metrics } = found;
  const used = metrics.heapUsed / metrics.heapMax;
  return h("div", { class: "tiles" },
    tile("CPU of the process", share(load), null,
      meter(load, `of the machine's ${found.hardware.cpuCores} cores`)),
    tile("Memory of the process", bytes(metrics.heapUsed), null,
      meter(used, `${share(used)} of the machine's ${bytes(metrics.heapMax)}`)),
    tile("Network buffers", `${metrics.nettyShuffleMemorySegmentsUsed} of ` +
      `${metrics.nettyShuffleMemorySegmentsTotal} used`, null,
      meter(metrics.nettyShuffleMemorySegmentsUsed / metrics.nettyShuffleMemorySegmentsTotal,
        bytes(metrics.nettyShuffleMemoryTotal))),
    tile("Slots", `${found.freeSlots} of ${found.slotsNumber} free`),
    tile("Tasks", found.assignedTasks));
}

function meter(value, text) {
  const known = Number.isFinite(value) ? Math.min(1, value) : 0;
  return h("span", { class: "meter" },
    h("i", { style: { width: `${100 * known}%` } }), h("span", { class: "quiet small" }, text));
}

export function cluster(state) {
  return h("div", {},
    h("h1", {}, "Driver"),
    tabs(CLUSTER_TABS, "#/cluster", state.route.tab), process(state));
}

function tabs(all, at, chosen) {
  return h("nav", { class: "tabs", "aria-label": "Parts" }, all.map(([name, title]) =>
    h("a", { href: `${at}/${name}`, "aria-current": chosen === name ? "page" : null }, title)));
}

function process(state) {
  const { route, data } = state;
  if (route.tab === "log") {
    return h("div", {},
      h("p", { class: "quiet" }, "The end of the log, at the levels that the program has set."),
      h("pre", { class: "log", tabindex: 0, "data-log": "" },
        state.log.key === logPath(route) ? state.log.text || "Nothing was logged." : "Loading …"));
  }
  if (route.tab === "threads") {
    if (!data.threads) return h("p", { class: "empty" }, "Loading …");
    const found = data.threads.threadInfos;
    return h("div", {}, h("p", { class: "quiet" }, `${found.length} threads`),
      found.map((one) => h("details", { class: "thread", "data-key": one.stringifiedThreadInfo.split("\n")[0] },
        h("summary", {}, one.threadName, h("span", { class: "quiet" }, where(one.stringifiedThreadInfo))),
        h("pre", { tabindex: 0 }, one.stringifiedThreadInfo))));
  }
  if (route.tab === "environment") {
    if (!data.environment) return h("p", { class: "empty" }, "Loading …");
    return h("div", {}, h("p", {}, data.environment.jvm.version, " on ", data.environment.jvm.arch),
      h("h2", {}, "Module search path"),
      h("pre", { tabindex: 0 }, data.environment.classpath.join("\n")));
  }
  if (route.tab === "config") {
    if (!data.options) return h("p", { class: "empty" }, "Loading …");
    return table([["Option", (one) => h("code", {}, one.key)], ["Value", (one) => one.value, "value"]],
      data.options, { key: (one) => one.key, caption: "Options", cards: true });
  }
  return table([["Metric", (one) => h("code", {}, one.id)], ["Value", (one) => exact(one.value), "number"]],
    state.values, { key: (one) => one.id, caption: "Metrics", cards: true, empty: "No values yet." });
}

function where(text) {
  const line = text.split("\n").find((one) => one.trim().startsWith("File "));
  const match = line?.match(/File "(.*)", line (\d+), in (.*)/);
  return match ? ` in ${match[3]}, ${match[1].split("/").slice(-2).join("/")}:${match[2]}` : "";
}

export function logPath({ page, id }) {
  return page === "workers" ? `/taskmanagers/${id}/log` : "/jobmanager/log";
}
