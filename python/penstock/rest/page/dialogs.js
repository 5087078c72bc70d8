// Confirmations of actions on a job.

import { h } from "./dom.js";

// Asks for confirmation; returns the values of the fields by name, or null if it was declined.
export function confirmed({ title, text, action, fields, danger = false }) {
  const dialog = document.getElementById("dialog");
  const form = h("form", { method: "dialog" },
    h("h2", { id: "dialog-title" }, title), h("p", {}, text),
    fields.map((field) => field.kind === "checkbox"
      ? h("label", { class: "check" }, h("input", { type: "checkbox", name: field.name }), field.label)
      : h("label", {}, field.label, h("input", { type: "text", name: field.name,
        placeholder: field.hint, autocomplete: "off", spellcheck: "false" }))),
    h("div", { class: "actions" },
      h("button", { type: "submit", value: "no" }, "Keep the job as it is"),
      h("button", { type: "submit", value: "yes", class: danger ? "danger" : "main" }, action)));
  dialog.replaceChildren(form);
  dialog.returnValue = "";
  // Enter in a field confirms the action; it does not press the first button.
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.type === "text") {
      event.preventDefault();
      dialog.close("yes");
    }
  });
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      if (dialog.returnValue !== "yes") resolve(null);
      else {
        resolve(Object.fromEntries([...form.elements].filter((one) => one.name).map((one) =>
          [one.name, one.type === "checkbox" ? one.checked : one.value.trim()])));
      }
    }, { once: true });
    dialog.showModal();
  });
}
