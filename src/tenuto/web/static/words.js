// States, times and values in words.

import { h, icon } from "/static/dom.js";
import { MARKS } from "/static/marks.js";

/** States of a run, in the order of the filter. */
export const RUN_STATES = ["running", "paused", "closing", "success", "failed", "cancelled", "timed_out"];
export const FINAL = new Set(["success", "failed", "cancelled", "timed_out"]);

const SHADES = {
  pending: "pending", active: "ready", ready: "ready", running: "running", closing: "running",
  waiting: "waiting", interrupted: "waiting", lost: "waiting", retry: "retry", success: "success",
  dead: "dead", failed: "dead", timed_out: "dead", skipped: "off", cancelled: "off", paused: "paused",
};

/** Name of the colour of a state. */
export function shade(state) {
  return SHADES[state] ?? "pending";
}

export function mark(state) {
  return MARKS[state] ?? MARKS.active;
}

/** A state as mark, word and colour. */
export function badge(state) {
  return h(
    "span",
    { class: `badge s-${shade(state)}`, "data-state": state },
    icon(mark(state), 13),
    state.replaceAll("_", " "),
  );
}

/** Microseconds for people, at most two units. */
export function duration(us) {
  const s = us / 1e6;
  if (s < 0.001) return `${Math.round(us)} µs`;
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 60) return `${s < 10 ? s.toFixed(1) : Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

/** Whole seconds below a minute, so that a ticking figure doesn't flicker. */
function ticking(us) {
  return us < 60e6 ? `${Math.floor(us / 1e6)} s` : duration(us);
}

function ago(ms) {
  const s = Math.max(0, ms / 1000);
  if (s < 5) return "just now";
  if (s < 60) return `${Math.floor(s)} s ago`;
  if (s < 3600) return `${Math.floor(s / 60)} min ago`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ago`;
  return `${Math.floor(s / 86400)} d ago`;
}

const LONG = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** How long ago, with the instant itself on hover. */
export function age(instant) {
  const at = Date.parse(instant);
  return h(
    "time",
    { datetime: instant, title: `${LONG.format(at)} (${instant})`, "data-tick": "age" },
    ago(Date.now() - at),
  );
}

/** How long a run took, or has taken so far. */
export function lasted(run) {
  const began = Date.parse(run.created_at);
  if (run.ended_at) {
    return h("span", { title: `ended ${run.ended_at}` }, duration((Date.parse(run.ended_at) - began) * 1000));
  }
  return h("span", { "data-tick": "since", "data-at": run.created_at }, ticking((Date.now() - began) * 1000));
}

/** Moves every figure that grows with time. */
export function tick() {
  for (const node of document.querySelectorAll("[data-tick]")) {
    const text =
      node.dataset.tick === "age"
        ? ago(Date.now() - Date.parse(node.dateTime))
        : ticking(Math.max(0, Date.now() - Date.parse(node.dataset.at)) * 1000);
    if (node.textContent !== text) node.textContent = text;
  }
}

/** The key of a run, unless a client drew it to make its request safe to repeat. */
export function shownKey(key) {
  return key === null || /^once-[0-9a-f]{24}$/.test(key) ? "" : key;
}

/** A failure payload in its parts; `code` is empty where the message begins with that word itself. */
export function told(error) {
  if (error === null || typeof error !== "object") return { code: "", message: text(error) };
  const code = text(error.code ?? "");
  const message = text(error.message ?? "");
  return { code: message.split(/[ :]/, 1)[0] === code ? "" : code, message };
}

function text(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** A word as a shell takes it. */
export function quoted(text) {
  return /^[A-Za-z0-9_.:/@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
}
