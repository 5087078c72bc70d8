// The checkpoints of a job: number, duration and size, and the part of each task.

import { badge, bytes, duration, h, sparkline, table, time } from "./dom.js";
import { tile } from "./overview.js";

const NEVER = 2 ** 53;

export function checkpoints({ route, data }, plan) {
  const found = data.checkpoints;
  if (!found) return h("p", { class: "empty" }, "Loading …");
  const { counts, latest, summary, history } = found;
  const past = history.filter((one) => one.status === "COMPLETED").reverse();
  const [chosen, vertex] = route.rest;
  const at = `#/jobs/${route.job}/checkpoints`;
  return h("div", {},
    h("div", { class: "tiles" },
      tile("Completed", counts.completed), tile("In progress", counts.in_progress),
      tile("Failed", counts.failed), tile("Restored", counts.restored),
      tile("Duration", duration(summary.end_to_end_duration.avg), null, trend(past.map((one) => one.end_to_end_duration), "on average", "Durations of the last checkpoints")),
      tile("State size", bytes(summary.state_size.avg), null, trend(past.map((one) => one.state_size), "on average", "Sizes of the last checkpoints"))),
    data.settings && settings(data.settings),
    latest.restored && h("p", {}, "Restored from ",
      h("code", {}, latest.restored.external_path || `checkpoint ${latest.restored.id}`),
      ` at ${time(latest.restored.restore_timestamp)}.`),
    h("h2", {}, "History"),
    table([
      ["Id", (one) => h("a", { href: `${at}/${one.id}` }, `#${one.id}`)],
      ["State", (one) => badge(one.status)],
      ["Kind", (one) => one.checkpoint_type.toLowerCase().replace("_", " ")],
      ["Triggered", (one) => time(one.trigger_timestamp)],
      ["Duration", (one) => duration(one.end_to_end_duration), "number"],
      ["Written", (one) => bytes(one.checkpointed_size), "number"],
      ["State size", (one) => bytes(one.state_size), "number"],
      ["In flight", (one) => bytes(one.persisted_data), "number"],
      ["Acknowledged", (one) => `${one.num_acknowledged_subtasks} of ${one.num_subtasks}`, "number"],
      ["Location or failure", (one) => one.failure_message
        ? h("span", { class: "bad" }, one.failure_message)
        : h("code", {}, one.external_path ?? "")],
    ], history, { key: (one) => one.id, caption: "Checkpoints", cards: true, empty: "No checkpoint yet.",
      attributes: (one) => ({ class: String(one.id) === chosen ? "chosen" : null }) }),
    chosen && details(data, plan, at, chosen, vertex));
}

function trend(values, text, label) {
  return h("span", {}, h("span", { class: "quiet small" }, text), sparkline(values, label));
}

function settings(found) {
  const interval = found.interval >= NEVER ? "no periodic checkpoints"
    : `every ${duration(found.interval)}`;
  return h("p", { class: "quiet" }, [
    found.mode.replaceAll("_", " "), interval, `timeout ${duration(found.timeout)}`,
    found.unaligned_checkpoints ? "unaligned" : "aligned", found.state_backend,
    found.checkpoint_storage,
  ].join(" · "));
}

function details(data, plan, at, chosen, vertex) {
  const found = data.details;
  if (!found || String(found.id) !== chosen) return h("p", { class: "empty" }, "Loading …");
  const names = new Map(plan.vertices.map((one) => [one.id, one.name]));
  const rows = Object.entries(found.tasks);
  return h("section", { class: "panel", "data-key": `checkpoint-${chosen}` },
    h("h2", {}, `Checkpoint ${found.id}`),
    found.failure_message && h("p", { class: "bad" }, found.failure_message),
    table([
      ["Vertex", ([id]) => h("a", { href: `${at}/${chosen}/${id}` }, names.get(id) ?? id), "name"],
      ["Acknowledged", ([, one]) => `${one.num_acknowledged_subtasks} of ${one.num_subtasks}`, "number"],
      ["Last acknowledged", ([, one]) => time(one.latest_ack_timestamp)],
      ["Duration", ([, one]) => duration(one.end_to_end_duration), "number"],
      ["Written", ([, one]) => bytes(one.checkpointed_size), "number"],
      ["State size", ([, one]) => bytes(one.state_size), "number"],
    ], rows, { key: ([id]) => id, caption: "Vertices of the checkpoint", cards: true,
      attributes: ([id]) => ({ class: id === vertex ? "chosen" : null }) }),
    vertex && subtasks(data.subtasks, names.get(vertex) ?? vertex));
}

function subtasks(found, name) {
  if (!found) return h("p", { class: "empty" }, "Loading …");
  const done = (get) => (one) => one.status === "completed" ? get(one) : "–";
  return h("div", {},
    h("h3", {}, name),
    table([
      ["Subtask", (one) => one.index, "number"],
      ["State", (one) => badge(one.status === "completed" ? "completed" : "pending")],
      ["Acknowledged", done((one) => time(one.ack_timestamp))],
      ["Duration", done((one) => duration(one.end_to_end_duration)), "number"],
      ["Start delay", done((one) => duration(one.start_delay)), "number"],
      ["Alignment", done((one) => duration(one.alignment.duration)), "number"],
      ["Synchronous", done((one) => duration(one.checkpoint.sync)), "number"],
      ["Asynchronous", done((one) => duration(one.checkpoint.async)), "number"],
      ["Written", done((one) => bytes(one.checkpointed_size)), "number"],
      ["In flight", done((one) => bytes(one.alignment.persisted)), "number"],
      ["Unaligned", done((one) => one.unaligned_checkpoint ? "yes" : "no")],
    ], found.subtasks, { key: (one) => one.index, caption: `Subtasks of ${name}`, cards: true }));
}
