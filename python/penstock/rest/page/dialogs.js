// Questions before something is done to a job.

import { h } from "./dom.js";

// Asks; gives what was filled in by name, or null when somebody thought better of it.
export function confirmed({ title, text, action, fields, danger = false }) {
  const dialog = document.getElementById("dialog");
  const form = h("form", { method: "dialog" },
    h("h2", { id: "dialog-title" }, title), h("p", {}, text),
    fields.map((field) => field.kind === "checkbox"
      ? h("label", { class: "check" }, h("input", { type: "checkbox", name: field.name }), field.label)
      : h("label", {}, field.label, h("input", { type: "text", name: field.name,
        placeholder: field.hint, autocomplete: "off", spellcheck: "false" }))),
    h("div", { class: "actions" },
      h("button", { type: "submit", value: "no" }, "Leave it"),
      h("button", { type: "submit", value: "yes", class: danger ? "danger" : "main" }, action)));
  dialog.replaceChildren(form);
  dialog.returnValue = "";
  // Enter in a field means the action, not the first button.
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
