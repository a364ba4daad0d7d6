// One node of a run, at the side: input, output, error, attempts, and what it said.

import { get } from "/static/api.js";
import { h, icon } from "/static/dom.js";
import { failedView, progress, runLink } from "/static/nested.js";
import { command, failure, json } from "/static/parts.js";
import { badge, duration, mark, shade } from "/static/words.js";

export function readNode(run, node) {
  return get(`/runs/${encodeURIComponent(run)}/nodes/${encodeURIComponent(node)}`);
}

/**
 * @param line the node in the report; `details` what `readNode` gave, or null while it is read; `notes` those that
 *   came since; `failed` the items of a foreach that failed, or null; `acts` what may be asked: `[{text, act}]`.
 */
export function drawer({ run, line, details, notes, failed, acts, close }) {
  const said = merged(details?.notes ?? [], notes);
  const error = details?.error ?? line.error;
  const dead = line.state === "dead"; // a node that is not goes on, or went on, after its error
  return h(
    "aside",
    { class: "drawer", key: `drawer-${line.id}`, id: "drawer", tabindex: "-1", "aria-label": `Node ${line.id}` },
    h(
      "div",
      { class: "head" },
      h("h2", null, line.id),
      badge(line.state),
      h("span", { class: "soft" }, line.type),
      h("button", { type: "button", class: "small close", "aria-label": "Close", title: "Close (Esc)", onclick: close }, "✕"),
    ),
    line.waits_for && h("section", { key: "waits" }, h("h3", null, "Waits for"), h("p", null, line.waits_for), line.command && command(line.command)),
    acts.length > 0 && h("div", { key: "acts", class: "acts" }, acts.map(({ text, act }) => h("button", { type: "button", key: text, class: "small", onclick: act }, text))),
    line.items && section("Items", progress(line.items, line.state)),
    failed?.items.length > 0 && section("Items that failed", failedView(run, line.id, failed)),
    (details?.child ?? line.child) && section("Run that it has called", runLink(details?.child ?? line.child)),
    line.undo && section("Undoing", h("p", null, line.undo), line.undo_error && failure(line.undo_error)),
    details === null && h("p", { class: "loading" }, "Loading …"),
    error && dead && section("Error", failure(error)),
    details && details.input !== null && section("Input", json(details.input, { label: "input" })),
    details && (details.output !== null || line.state === "success") && section(details.given ? "Output, given by hand" : "Output", json(details.output, { label: "output" })),
    details?.attempts.length > 0 && section("Attempts", attempts(details.attempts)),
    error && !dead && section("Last failed attempt", failure(error)),
    said.length > 0 && section("Log", log(said)),
    details && details.input === null && details.output === null && !details.attempts.length && !line.waits_for && h("p", { class: "soft" }, line.state === "pending" ? "It has not been reached." : "There is nothing to show of it."),
  );
}

function section(title, ...children) {
  return h("section", { key: title }, h("h3", null, title), ...children);
}

function attempts(steps) {
  return h(
    "ol",
    { class: "attempts" },
    steps.map((step) =>
      h(
        "li",
        { class: `s-${shade(step.result)}` },
        icon(mark(step.result), 12),
        h("span", null, step.attempt === null ? step.what : `attempt ${step.attempt}`),
        h("span", { class: "word" }, step.result, step.code ? ` · ${step.code}` : ""),
        h("span", { class: "soft" }, step.duration_us === null ? "" : duration(step.duration_us), step.start_us === null ? "" : ` · at ${duration(step.start_us)}`, step.worker ? ` · ${step.worker}` : ""),
        step.child && runLink(step.child),
        step.message && h("p", { class: "why bad" }, step.message),
      ),
    ),
  );
}

function log(notes) {
  const several = new Set(notes.map((note) => note.attempt)).size > 1;
  return h(
    "div",
    { class: "log", tabindex: "0", "aria-label": "Log", role: "log" },
    notes.map((note) =>
      h(
        "p",
        { key: keyOf(note), class: `note ${note.kind}` },
        h("span", { class: "soft", title: `${note.at}, ${note.kind}` }, several ? `${note.attempt} ` : "", note.at.slice(11, 19)),
        " ",
        note.kind === "progress" ? progressWords(note) : note.text,
      ),
    ),
  );
}

/** What a note of progress says, e.g. `3 of 10: reading`. */
export function progressWords(note) {
  let told;
  try {
    told = JSON.parse(note.text);
  } catch {
    return note.text;
  }
  const share = told.total === null || told.total === undefined ? `${told.done}` : `${told.done} of ${told.total}`;
  return told.message ? `${share}: ${told.message}` : share;
}

export function keyOf(note) {
  return `${note.place}/${note.attempt}/${note.number}`;
}

function merged(read, streamed) {
  const all = new Map(read.map((note) => [keyOf(note), note]));
  for (const [key, note] of streamed) all.set(key, note);
  return [...all.values()].sort((a, b) => a.attempt - b.attempt || a.number - b.number);
}
