// The form that sends the event a node waits for.

import { post } from "/static/api.js";
import { h, patch } from "/static/dom.js";
import { toast } from "/static/parts.js";

/** @param awaits `{event, key, payload}` of a report's node; `payload` shows what is read of it. */
export function eventForm(node, awaits) {
  const id = `payload-${node}`;
  const errors = h("div", { class: "errors", role: "alert" });
  const area = h("textarea", {
    id,
    class: "code",
    rows: "3",
    spellcheck: "false",
    value: sample(awaits.payload),
    oninput: () => patch(errors),
  });
  const button = h("button", { type: "submit", class: "primary" }, "Send event");

  async function submit(event) {
    event.preventDefault();
    patch(errors);
    let payload;
    try {
      payload = area.value.trim() ? JSON.parse(area.value) : null;
    } catch (error) {
      patch(errors, h("p", null, `this is not JSON: ${error.message}`));
      area.focus();
      return;
    }
    button.disabled = true;
    try {
      await post("/events", { event: awaits.event, key: awaits.key, payload });
      toast(`Sent ${awaits.event}`);
    } catch (problem) {
      patch(errors, h("p", null, problem.message));
    } finally {
      button.disabled = false;
    }
  }

  return h(
    "form",
    { class: "event", keep: true, key: `event-${node}-${awaits.event}-${awaits.key}`, onsubmit: submit },
    h("label", { for: id }, "Payload", h("span", { class: "soft" }, " (JSON)")),
    area,
    errors,
    h("div", { class: "buttons" }, button),
  );
}

/** `{"approved": …}` as JSON to be filled in. */
function sample(shown) {
  const names = [...(shown ?? "").matchAll(/"([^"]+)": …/g)].map(([, name]) => name);
  return JSON.stringify(Object.fromEntries(names.map((name) => [name, null])), null, 2);
}
