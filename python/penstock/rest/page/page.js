// The page of a running cluster: asks the REST interface at its interval and shows what it says.
// Rendering is made of functions from answers to text of HTML, in which every value is escaped.
"use strict";

const NODE_WIDTH = 220, NODE_HEIGHT = 78, GAP_X = 60, GAP_Y = 24;
const RATES = "numRecordsInPerSecond,numRecordsOutPerSecond";

function escaped(value) {
  return String(value ?? "–").replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}

function time(ms) {
  return ms > 0 ? new Date(ms).toLocaleTimeString() : "–";
}

function table(titles, rows) {
  const cell = (tag, value) =>
    `<${tag}${typeof value === "number" ? ' class="number"' : ""}>${escaped(value)}</${tag}>`;
  return `<table><tr>${titles.map((t) => cell("th", t)).join("")}</tr>` +
    rows.map((row) => `<tr>${row.map((v) => cell("td", v)).join("")}</tr>`).join("") + "</table>";
}

function jobButtons(jobs, chosen) {
  return jobs.map((job) =>
    `<button data-job="${escaped(job.jid)}" aria-current="${job.jid === chosen}">` +
    `${escaped(job.name)}: ${escaped(job.state)}</button>`).join(" ");
}

// Column of each vertex: one behind the last of those that it reads from.
function columns(nodes) {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const found = new Map();
  const column = (id) => {
    if (!found.has(id)) {
      found.set(id, 0);
      const inputs = (byId.get(id)?.inputs ?? []).filter((input) => byId.has(input.id));
      found.set(id, Math.max(-1, ...inputs.map((input) => column(input.id))) + 1);
    }
    return found.get(id);
  };
  nodes.forEach((node) => column(node.id));
  return found;
}

function graph(job, figures) {
  const nodes = [...job.plan.nodes].reverse();
  const column = columns(nodes), used = [], places = new Map();
  for (const node of nodes) {
    const x = column.get(node.id), y = used[x] ?? 0;
    used[x] = y + 1;
    places.set(node.id, [x * (NODE_WIDTH + GAP_X), y * (NODE_HEIGHT + GAP_Y)]);
  }
  const lines = nodes.flatMap((node) => (node.inputs ?? []).map((input) => {
    const from = places.get(input.id), to = places.get(node.id);
    if (!from) return "";
    const x1 = from[0] + NODE_WIDTH, y1 = from[1] + NODE_HEIGHT / 2;
    const x2 = to[0], y2 = to[1] + NODE_HEIGHT / 2, middle = (x1 + x2) / 2;
    return `<path d="M${x1},${y1} C${middle},${y1} ${middle},${y2} ${x2},${y2}">` +
      `<title>${escaped(input.ship_strategy)}</title></path>`;
  }));
  const boxes = job.vertices.map((vertex) => {
    const [x, y] = places.get(vertex.id) ?? [0, 0];
    const figure = figures[vertex.id] ?? {};
    const name = vertex.name.length > 30 ? `${vertex.name.slice(0, 29)}…` : vertex.name;
    const texts = [
      name,
      `${vertex.status}, parallelism ${vertex.parallelism}`,
      `in ${rate(figure.recordsIn)}, out ${rate(figure.recordsOut)} records/s`,
      `busy ${share(figure.busy)}, back pressured ${share(figure.backPressured)}`,
    ];
    return `<g><title>${escaped(vertex.name)}</title>` +
      `<rect class="${escaped(figure.level ?? "")}" x="${x}" y="${y}" width="${NODE_WIDTH}" ` +
      `height="${NODE_HEIGHT}" rx="4"/>` +
      texts.map((text, line) =>
        `<text x="${x + 8}" y="${y + 18 + 17 * line}">${escaped(text)}</text>`).join("") + "</g>";
  });
  const width = used.length * (NODE_WIDTH + GAP_X), height = Math.max(...used, 1) * (NODE_HEIGHT + GAP_Y);
  return `<svg width="${width}" viewBox="-1 -1 ${width} ${height}">${lines.join("")}${boxes.join("")}</svg>`;
}

function rate(value) {
  return typeof value === "number" ? Math.round(value).toLocaleString("en") : "–";
}

function share(value) {
  return typeof value === "number" ? `${Math.round(100 * value)} %` : "–";
}

function figuresOf(metrics, backpressure) {
  const sums = Object.fromEntries(metrics.map((one) => [one.id, one.sum]));
  const most = (name) => {
    const values = backpressure.subtasks.map((one) => one[name]).filter(Number.isFinite);
    return values.length ? Math.max(...values) : undefined;
  };
  return {
    recordsIn: sums.numRecordsInPerSecond,
    recordsOut: sums.numRecordsOutPerSecond,
    busy: most("busyRatio"),
    backPressured: most("ratio"),
    level: backpressure.backpressureLevel,
  };
}

function jobPage(job, figures, checkpoints, exceptions) {
  const parts = [
    `<h2>${escaped(job.name)}: ${escaped(job.state)} for ${Math.round(job.duration / 1000)} s</h2>`,
    graph(job, figures),
    "<h2>Vertices</h2>",
    table(["name", "parallelism", "state", "records in", "records out", "bytes in", "bytes out"],
      job.vertices.map((v) => [v.name, v.parallelism, v.status, v.metrics["read-records"],
        v.metrics["write-records"], v.metrics["read-bytes"], v.metrics["write-bytes"]])),
  ];
  if (checkpoints.counts.total > 0) {
    parts.push(`<h2>Checkpoints: ${escaped(checkpoints.counts.completed)} completed, ` +
      `${escaped(checkpoints.counts.failed)} failed</h2>`,
      table(["id", "kind", "status", "triggered", "ms", "bytes of state", "acknowledged", "where"],
        checkpoints.history.map((c) => [c.id, c.checkpoint_type, c.status, time(c.trigger_timestamp),
          c.end_to_end_duration, c.state_size,
          `${c.num_acknowledged_subtasks} of ${c.num_subtasks}`, c.external_path ?? c.failure_message])));
  }
  const entries = exceptions.exceptionHistory.entries;
  if (entries.length > 0) {
    parts.push("<h2>Failures</h2>");
    for (const entry of entries) {
      parts.push(`<p>${escaped(time(entry.timestamp))} ${escaped(entry.taskName ?? "")} ` +
        `${escaped(entry.exceptionName)}</p><pre>${escaped(entry.stacktrace)}</pre>`);
    }
  }
  return parts.join("");
}

async function show(ask, chosen, place) {
  const jobs = (await ask("/jobs/overview")).jobs;
  const jid = jobs.some((job) => job.jid === chosen) ? chosen : jobs[0]?.jid;
  place("jobs", jobButtons(jobs, jid));
  if (jid === undefined) return;
  const path = `/jobs/${jid}`;
  const [job, checkpoints, exceptions] = await Promise.all(
    [path, `${path}/checkpoints`, `${path}/exceptions`].map(ask));
  const figures = Object.fromEntries(await Promise.all(job.vertices.map(async (vertex) => {
    const at = `${path}/vertices/${vertex.id}`;
    const both = [`${at}/subtasks/metrics?get=${RATES}&agg=sum`, `${at}/backpressure`];
    return [vertex.id, figuresOf(...await Promise.all(both.map(ask)))];
  })));
  place("job", jobPage(job, figures, checkpoints, exceptions));
}

function start() {
  const given = new URLSearchParams(location.search).get("token");
  if (given) {
    sessionStorage.setItem("token", given);
    history.replaceState(null, "", location.pathname);  // not for the history of the browser
  }
  const headers = { Authorization: `Bearer ${sessionStorage.getItem("token") ?? ""}` };
  const ask = async (path) => {
    const answer = await fetch(`v1${path}`, { headers });
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.errors.join("; "));
    return found;
  };
  const place = (id, html) => { document.getElementById(id).innerHTML = html; };
  let chosen = null, interval = 3000;
  document.getElementById("jobs").addEventListener("click", (event) => {
    chosen = event.target.dataset.job ?? chosen;
    show(ask, chosen, place).catch(() => {});  // the next turn says what is wrong
  });
  const turn = async () => {
    let problem = "";
    try {
      await show(ask, chosen, place);
    } catch (error) {
      problem = error instanceof TypeError ? "the cluster does not answer" : error.message;
    }
    document.getElementById("state").textContent = problem;
    setTimeout(turn, interval);
  };
  ask("/config").then((found) => { interval = found["refresh-interval"]; }, () => {}).then(turn);
}

if (typeof document !== "undefined") start();
else module.exports = { show };
