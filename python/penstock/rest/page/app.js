// The page: the part of its address after # selects the content; updates arrive by themselves.

import * as api from "./api.js";
import { confirmed } from "./dialogs.js";
import { h, morph } from "./dom.js";
import { Flame } from "./flame.js";
import { Graph } from "./graph.js";
import * as jobs from "./job.js";
import { overview } from "./overview.js";
import * as processes from "./workers.js";

const HISTORY = 120, MAX_METRICS = 60, MAX_LOG = 400_000;

const state = {
  route: null, live: null, broken: null, config: null,
  plans: new Map(), history: new Map(),
  data: {}, values: [], metricValues: [], metricHistory: new Map(), metricsChosen: new Set(),
  log: { key: "", text: "", position: 0 },
  find: "", order: "flow", metricFind: "", flameKind: "full", flameFind: "", flame: null, peek: null,
  lookup: {},
};
let unwatch = () => {}, watched = null, graph = null, flame = null, loading = false, again = false;

// ---- the route --------------------------------------------------------------------------------

function parse() {
  const [page = "", id = "", tab = "", ...rest] = location.hash.replace(/^#\/?/, "").split("/")
    .map(decodeURIComponent);
  if (page === "jobs" && id) return { page, job: id, tab: tab || "graph", rest };
  if (page === "workers") return { page, id, tab: tab || "metrics", rest };
  if (page === "cluster") return { page, id: "", tab: id || "config", rest };
  return { page: "overview", rest };
}

function navigated() {
  const before = state.route;
  state.route = parse();
  const same = before && JSON.stringify(before) === JSON.stringify(state.route);
  if (!same) {
    state.data = {};
    state.values = state.metricValues = [];
    state.metricHistory = new Map();
    state.metricsChosen = new Set();
    state.stateNames = null;
    state.peek = null;
    state.flame = null;
    state.lookup = {};
  }
  if (watched !== (state.route.job ?? "")) follow(state.route.job ?? "");
  render();
  load();
  if (before && before.page !== state.route.page) document.getElementById("main")?.focus();
}

function follow(job) {
  unwatch();
  watched = job;
  if (state.live?.job?.jid !== job) state.live = state.live && { ...state.live, job: null };
  unwatch = api.watch(job, told, (problem) => {
    state.broken = problem;
    render();
  });
}

function told(picture) {
  const first = state.live === null;
  state.live = picture;
  state.broken = null;
  remember(picture.job);
  if (first && !location.hash && picture.jobs.length === 1) {
    location.replace(`#/jobs/${picture.jobs[0].jid}`);
    return;
  }
  render();
  load();
}

function remember(job) {
  if (!job) return;
  const past = state.history.get(job.jid) ?? [];
  const sources = new Set((state.plans.get(job.jid)?.plan.nodes ?? [])
    .filter((node) => !(node.inputs ?? []).length).map((node) => node.id));
  const most = (name) => {
    const values = job.vertices.map((vertex) => vertex[name]).filter(Number.isFinite);
    return values.length ? Math.max(...values) : null;
  };
  const out = job.vertices.filter((vertex) => sources.has(vertex.id))
    .map((vertex) => vertex["out-rate"]).filter(Number.isFinite);
  past.push({ out: out.length ? out.reduce((sum, one) => sum + one, 0) : null,
    busy: most("busy"), pressed: most("back-pressured") });
  state.history.set(job.jid, past.slice(-HISTORY));
}

// ---- requests in addition to the pictures ------------------------------------------------------

async function load() {
  if (loading) {
    again = true;
    return;
  }
  loading = true;
  const route = state.route;
  try {
    if (!state.config) state.config = await api.ask("/config");
    await plan(route.job);
    const needs = route.page === "jobs" ? jobs.needs(route)
      : route.page === "overview" ? {} : processes.needs(route);
    const names = Object.keys(needs);
    const found = await Promise.all(names.map((name) => api.ask(needs[name])));
    if (route !== state.route) return;
    names.forEach((name, index) => { state.data[name] = found[index]; });
    await further(route, needs);
    delete state.data.problem;
  } catch (error) {
    if (route === state.route && state.broken === null) {
      state.data.problem = error instanceof api.Refused ? error.message : null;
    }
  } finally {
    loading = false;
    render();
    if (again || route !== state.route) {
      again = false;
      load();
    }
  }
}

async function plan(job) {
  const known = state.plans.get(job);
  if (!job || (known && !isRescaled(job, known))) return;
  const { plan, vertices } = await api.ask(`/jobs/${job}`);
  state.plans.set(job, { ...plan, plan, vertices });
  graph = null;
}

function isRescaled(job, known) {
  if (state.live?.job?.jid !== job) return false;
  const subtasks = new Map(state.live.job.vertices.map((vertex) =>
    [vertex.id, Object.values(vertex.tasks).reduce((sum, one) => sum + one, 0)]));
  return known.vertices.some((vertex) => subtasks.get(vertex.id) !== vertex.parallelism);
}

async function further(route, needs) {
  if (route.page !== "jobs" && route.tab === "metrics" && state.data.names) {
    const names = state.data.names.map((one) => encodeURIComponent(one.id)).join(",");
    const values = await api.ask(`${needs.names}?get=${names}`);
    if (route !== state.route) return;
    state.values = values;
  }
  if (route.tab === "log") {
    const key = processes.logPath(route);
    const since = state.log.key === key ? state.log.position : 0;
    const { text, position } = await api.askText(`${key}?since=${since}`);
    if (route !== state.route) return;
    state.log = { key, position, text: ((since ? state.log.text : "") + text).slice(-MAX_LOG) };
  }
  if (state.data.metricNames) {
    const found = state.data.metricNames.map((one) => one.id)
      .filter((name) => name.toLowerCase().includes(state.metricFind.toLowerCase()))
      .slice(0, MAX_METRICS);
    const names = [...new Set([...found, ...state.metricsChosen])];
    const values = names.length
      ? await api.ask(`${needs.metricNames}?get=${names.map(encodeURIComponent).join(",")}`) : [];
    if (route !== state.route) return;
    state.metricValues = values.filter((one) => found.includes(one.id));
    for (const { id, sum } of values) {
      state.metricHistory.set(id, [...(state.metricHistory.get(id) ?? []), sum].slice(-HISTORY));
    }
  }
  const [vertex, part] = route.rest;
  const operator = document.querySelector("select[data-lookup=operator]")?.value;
  if (route.tab === "graph" && part === "state" && operator
      && state.stateNames?.operator !== operator) {
    const named = await statesOf(route.job, operator);
    if (route === state.route) state.stateNames = named;
  }
  if (route.tab === "graph" && part === "flame") {
    const path = `/jobs/${route.job}/vertices/${vertex}/flamegraph?type=${state.flameKind}`;
    const flame = await api.ask(path);
    if (route === state.route) state.flame = { vertex, ...flame };
  }
}

async function statesOf(job, operator) {
  try {
    const wish = new URLSearchParams({ operator, state: "", key: "" });
    const { states } = await api.ask(`/jobs/${job}/state?${wish}`);
    return { operator, states };
  } catch (error) {
    if (!(error instanceof api.Refused)) throw error;
    return { operator, states: [], problem: error.message };
  }
}

// ---- rendering --------------------------------------------------------------------------------

function render() {
  const { route, broken, live } = state;
  const past = state.config?.features["web-history"];
  const link = (page, title) => h("a", { href: `#/${page}`,
    "aria-current": (route.page === (page || "overview")) ? "page" : null }, title);
  const content = route.page === "jobs" ? jobs.jobPage(state)
    : route.page === "workers" ? (route.id ? processes.worker(state) : processes.workers(state))
      : route.page === "cluster" ? processes.cluster(state) : overview(state);
  const next = h("div", { id: "app" },
    h("header", { class: "top" },
      h("a", { class: "brand", href: "#/" }, "penstock"),
      h("nav", { "aria-label": "Pages" }, link("", "Overview"),
        !past && link("workers", "TaskExecutors"), !past && link("cluster", "Driver")),
      live?.jobs.length > 0 && h("nav", { class: "jobs", "aria-label": "Jobs" },
        live.jobs.slice(0, 6).map((job) => h("a", { href: `#/jobs/${job.jid}`,
          "aria-current": route.job === job.jid ? "page" : null }, job.name))),
      h("span", { class: `pulse ${broken ? "bad" : live ? "good" : ""}`, role: "status" },
        broken?.ended ? "ended" : broken ? "no connection"
          : live ? (past ? "history" : "live") : "connecting"),
      h("button", { type: "button", class: "theme", "data-action": "theme",
        "aria-label": "Dark or light", title: "Dark or light" }, "◐")),
    problem(broken, state.data.problem),
    h("main", { id: "main", tabindex: -1 }, content));
  morph(document.getElementById("app"), next);
  kept();
  document.title = live?.job && route.job ? `${live.job.name} – ${live.job.state.toLowerCase()}` : "penstock";
}

function problem(broken, message) {
  if (broken?.ended) {
    return h("p", { class: "banner" }, "The cluster has ended; this is its last state.");
  }
  if (broken?.status === 401) {
    return h("p", { class: "banner bad" }, "This cluster needs its token: open the link that the " +
      "driver printed.");
  }
  const text = broken?.message ?? message;
  return text ? h("p", { class: "banner bad" }, text) : h("p", { class: "banner none" });
}

// Moves the elements that render themselves into their places.
function kept() {
  const { route, live, plans } = state;
  const place = document.querySelector(".graph-place");
  const known = plans.get(route.job);
  if (place && known && live?.job) {
    if (graph?.job !== route.job) {
      graph = new Graph(known.plan, known.vertices, {
        chosen: (id) => { location.hash = `#/jobs/${route.job}/graph/${id}`; },
        peeked: look,
      });
      graph.job = route.job;
    }
    if (graph.element.parentNode !== place) place.replaceChildren(graph.element);
    graph.update(new Map(live.job.vertices.map((vertex) => [vertex.id, vertex])), live.now);
    graph.mark(route.rest[0]);
  }
  const below = document.querySelector(".flame-place");
  if (below && state.flame?.data) {
    if (flame?.data !== below.dataset.keep) {
      flame = new Flame(state.flame.data);
      flame.data = below.dataset.keep;
      flame.find(state.flameFind);
    }
    if (flame.element.parentNode !== below) below.replaceChildren(flame.element);
  }
  const log = document.querySelector("[data-log]");
  if (log && log.dataset.seen !== String(state.log.position)) {
    const atEnd = !log.dataset.seen || log.scrollTop + log.clientHeight > log.scrollHeight - 80;
    log.dataset.seen = state.log.position;
    if (atEnd) log.scrollTop = log.scrollHeight;
  }
}

async function look(edge) {
  state.peek = { ...edge, busy: true, found: state.peek?.label === edge.label ? state.peek.found : null };
  const peek = state.peek;
  render();
  try {
    peek.found = await api.ask(
      `/jobs/${state.route.job}/vertices/${edge.to}/records?edge=${edge.number}&count=20`);
    delete peek.error;
  } catch (error) {
    peek.error = error.message;
  }
  peek.busy = false;
  render();
}

async function lookUp(form) {
  const wish = Object.fromEntries([...form.querySelectorAll("[data-lookup]")]
    .map((one) => [one.dataset.lookup, one.value.trim()]));
  const lookup = { vertex: state.route.rest[0], busy: true };
  state.lookup = lookup;
  render();
  try {
    const found = await api.ask(`/jobs/${state.route.job}/state?${new URLSearchParams(wish)}`);
    lookup.found = { ...found, key: wish.key };
  } catch (error) {
    lookup.error = error.message;
  }
  lookup.busy = false;
  render();
}

// ---- actions ----------------------------------------------------------------------------------

function toast(text, kind = "") {
  const made = h("div", { class: `toast ${kind}` }, h("span", {}, text),
    h("button", { type: "button", "aria-label": "Close" }, "×"));
  made.querySelector("button").addEventListener("click", () => made.remove());
  document.getElementById("toasts").append(made);
  if (kind !== "bad") setTimeout(() => made.remove(), 20_000);
}

async function act(title, run) {
  try {
    toast(await run());
  } catch (error) {
    toast(`${title} failed: ${error.message}`, "bad");
  }
  load();
}

const ACTIONS = {
  theme() {
    const dark = getComputedStyle(document.documentElement).colorScheme.trim() === "dark";
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    try {
      localStorage.setItem("theme", dark ? "light" : "dark");
    } catch { /* next time the system's theme applies again */ }
  },
  async checkpoint() {
    const at = `/jobs/${state.route.job}/checkpoints`;
    await act("The checkpoint", async () => {
      const done = await api.outcome(at, { checkpointType: "CONFIGURED" });
      return `Checkpoint ${done.checkpointId} is complete.`;
    });
  },
  async savepoint() {
    const wish = await confirmed({ title: "Take a savepoint", action: "Take it",
      text: "The job continues.", fields: [directory()] });
    if (!wish) return;
    const at = `/jobs/${state.route.job}/savepoints`;
    await act("The savepoint", async () => {
      const body = wish.directory ? { "target-directory": wish.directory } : {};
      return `Savepoint: ${(await api.outcome(at, body)).location}`;
    });
  },
  async stop() {
    const wish = await confirmed({ title: "Stop with a savepoint", action: "Stop the job",
      text: "The job ends; another job can start from the savepoint.",
      fields: [directory(), { name: "drain", kind: "checkbox",
        label: "Drain first: event time ends and windows close, so no job can continue from there" }] });
    if (!wish) return;
    const at = `/jobs/${state.route.job}`;
    await act("The stop", async () => {
      const body = { drain: wish.drain, ...(wish.directory && { targetDirectory: wish.directory }) };
      return `Stopped. Savepoint: ${(await api.outcome(`${at}/stop`, body, `${at}/savepoints`)).location}`;
    });
  },
  async rescale() {
    const wish = await confirmed({ title: "Rescale the job", action: "Rescale it",
      text: "The job takes a checkpoint, and its tasks restart from it. Operators whose " +
        "parallelism the program sets keep it.",
      fields: [{ name: "parallelism", kind: "text", label: "Parallelism", hint: "a number" }] });
    if (!wish) return;
    const at = `/jobs/${state.route.job}/rescaling`;
    await act("The rescaling", async () => {
      const number = encodeURIComponent(wish.parallelism);
      await api.outcome(`${at}?parallelism=${number}`, undefined, at, "PATCH");
      return `The job runs with parallelism ${wish.parallelism}.`;
    });
  },
  async cancel() {
    const wish = await confirmed({ title: "Cancel the job", action: "Cancel it", danger: true,
      text: "The job ends without a savepoint: its work since the last checkpoint is lost.", fields: [] });
    if (!wish) return;
    await act("The cancellation", async () => {
      await api.send(`/jobs/${state.route.job}?mode=cancel`, "PATCH");
      return "The job is being cancelled.";
    });
  },
  "flame-kind"(element) {
    state.flameKind = element.dataset.kind;
    state.flame = null;
    render();
    load();
  },
  "choose-metric"({ dataset: { name } }) {
    if (!state.metricsChosen.delete(name)) state.metricsChosen.add(name);
    render();
  },
  "close-peek"() {
    state.peek = null;
    render();
  },
  "peek-again"() {
    look(state.peek);
  },
};

function directory() {
  return { name: "directory", kind: "text", label: "Directory",
    hint: "if empty: execution.checkpointing.savepoint-dir" };
}

function start() {
  api.start();
  try {
    const theme = localStorage.getItem("theme");
    if (theme) document.documentElement.dataset.theme = theme;
  } catch { /* the system's */ }
  document.addEventListener("click", (event) => {
    const element = event.target.closest("[data-action]");
    if (element) ACTIONS[element.dataset.action]?.(element);
  });
  document.addEventListener("submit", (event) => {
    if (!event.target.classList.contains("lookup")) return;
    event.preventDefault();
    lookUp(event.target);
  });
  document.addEventListener("input", (event) => {
    const name = event.target.dataset?.input;
    if (!name) return;
    state[name] = event.target.value;
    if (name === "flameFind") flame?.find(state.flameFind);
    render();
    if (name === "metricFind") load();
  });
  document.addEventListener("change", (event) => {
    if (event.target.dataset?.lookup === "operator") load();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || document.querySelector("dialog[open]")) return;
    if (state.peek) ACTIONS["close-peek"]();
    else if (state.route.job && state.route.rest[0]) {
      location.hash = `#/jobs/${state.route.job}/${state.route.tab}`;
    }
  });
  window.addEventListener("hashchange", navigated);
  navigated();
}

start();
