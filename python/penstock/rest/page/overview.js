// The first page: a few figures of the cluster, and its jobs.

import { badge, count, duration, h, table, time } from "./dom.js";

const ENDED = new Set(["FINISHED", "CANCELED", "FAILED", "SUSPENDED"]);

export function overview({ live, config }) {
  if (!live) return h("p", { class: "empty" }, "Waiting for the cluster …");
  const { cluster, jobs } = live;
  const past = config?.features["web-history"];
  const ended = jobs.filter((job) => ENDED.has(job.state));
  return h("div", {},
    h("h1", {}, "Overview"),
    h("div", { class: "tiles" },
      !past && [tile("TaskExecutors", cluster.taskmanagers, "#/workers"),
        tile("Slots free", `${cluster["slots-available"]} of ${cluster["slots-total"]}`),
        tile("Running jobs", cluster["jobs-running"])],
      tile("Finished", cluster["jobs-finished"]),
      tile("Cancelled", cluster["jobs-cancelled"]),
      tile("Failed", cluster["jobs-failed"])),
    !past && [h("h2", {}, "Running jobs"),
      jobTable(jobs.filter((job) => !ENDED.has(job.state)), "Running jobs", "No job is running.")],
    h("h2", {}, "Completed jobs"),
    jobTable(ended, "Completed jobs", "No job has ended yet."));
}

function jobTable(jobs, caption, empty) {
  return table([
    ["Name", (job) => h("a", { href: `#/jobs/${job.jid}` }, job.name), "name"],
    ["State", (job) => badge(job.state)],
    ["Started", (job) => time(job["start-time"])],
    ["Ended", (job) => time(job["end-time"])],
    ["Duration", (job) => duration(job.duration), "number"],
    ["Tasks", tasks],
    ["Id", (job) => h("code", {}, job.jid)],
  ], jobs, { key: (job) => job.jid, caption, cards: true, empty });
}

function tasks(job) {
  const shown = Object.entries(job.tasks).filter(([name, number]) => name !== "total" && number > 0);
  return h("span", { class: "chips" },
    shown.map(([name, number]) => h("span", { class: `badge ${name}` }, `${number} ${name}`)));
}

export function tile(title, value, href = null, extra = null) {
  const content = [h("span", { class: "title" }, title),
    h("span", { class: "value" }, typeof value === "number" ? count(value) : value), extra];
  return href ? h("a", { class: "tile", href }, content) : h("div", { class: "tile" }, content);
}
