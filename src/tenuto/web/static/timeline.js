// The nodes of a run, each with what it did on one scale of time.

import { h, icon } from "/static/dom.js";
import { progress as progressOf } from "/static/nested.js";
import { duration, mark, shade, told } from "/static/words.js";

const OVER = new Set(["success", "dead", "skipped", "cancelled"]);
const WORK = new Set(["attempt", "child", "items"]);

/** @param run a report. `total`: microseconds that the scale spans. */
export function timeline(run, { total, chosen, progress, choose }) {
  const steps = new Map();
  for (const step of run.timeline) {
    if (step.node === null) continue;
    if (!steps.has(step.node)) steps.set(step.node, []);
    steps.get(step.node).push(step);
  }
  return h(
    "div",
    { class: "timeline" },
    h("div", { class: "scale soft", "aria-hidden": "true" }, h("span", null, "0"), h("span", null, duration(total))),
    h(
      "ul",
      null,
      run.nodes.map((node) => line(node, steps.get(node.id) ?? [], { total, chosen, progress, choose })),
    ),
  );
}

function line(node, steps, { total, chosen, progress, choose }) {
  const shown = node.items ? passes(node, steps, total) : steps;
  const busy = shown.reduce((sum, step) => sum + (step.duration_us ?? (node.items ? total - step.start_us : 0)), 0);
  const done = progress.get(node.id);
  const undone = node.undo ? `undo: ${node.undo}` : "";
  return h(
    "li",
    { key: node.id, class: `line s-${shade(node.state)}`, "data-node": node.id, "data-state": node.state },
    h(
      "button",
      { type: "button", class: "open", "aria-pressed": String(chosen === node.id), onclick: () => choose(node.id) },
      h("span", { class: "what" }, icon(mark(node.state), 13), h("span", { class: "id" }, node.id), node.iteration > 1 && h("span", { class: "soft" }, ` #${node.iteration}`)),
      h("span", { class: "word" }, node.state),
      h("span", { class: steps.length ? "bars" : "bars none" }, bars(shown, total)),
      h("span", { class: "figures soft" }, figures(node, busy).map((part) => h("span", null, part))),
    ),
    node.items && !node.given && progressOf(node.items, node.state),
    node.state === "running" && done && h("p", { class: "why" }, done),
    node.waits_for && h("p", { class: "why" }, `waits for ${node.waits_for}`),
    node.error && h("p", { class: "why bad" }, said(node.error)),
    node.given && h("p", { class: "why" }, "given by hand"),
    undone && h("p", { class: node.undo === "failed" ? "why bad" : "why" }, node.undo_error ? `${undone}: ${said(node.undo_error)}` : undone),
  );
}

/**
 * One bar for the items of a foreach in each of its passes, from the first to the last of them. Of its last pass it has
 * the colour of the node: failures that it tolerates do not make it red.
 */
function passes(node, steps, total) {
  const found = new Map();
  const others = [];
  for (const step of steps) {
    if (step.start_us === null || step.place.includes("!")) {
      others.push(step);
      continue;
    }
    const place = step.place.replace(/\[p?\d+\]/, "");
    const end = step.duration_us === null ? null : step.start_us + step.duration_us;
    const pass = found.get(place) ?? { start: step.start_us, end: step.start_us, result: "success" };
    pass.start = Math.min(pass.start, step.start_us);
    pass.end = end === null || pass.end === null ? null : Math.max(pass.end, end);
    if (step.what === "items" && step.result !== "lost") pass.result = step.result;
    found.set(place, pass);
  }
  const last = [...found.values()].sort((a, b) => a.start - b.start).at(-1);
  const over = OVER.has(node.state);
  const made = [...found.values()].map((pass) => {
    const end = pass === last && !over ? null : (pass.end ?? total);
    return {
      what: "items",
      attempt: null,
      code: null,
      result: pass === last ? node.state : pass.result,
      start_us: pass.start,
      duration_us: end === null ? null : end - pass.start,
    };
  });
  return [...others.filter((step) => step.start_us !== null), ...made];
}

function figures(node, busy) {
  const parts = [];
  if (node.attempts > 1) parts.push(`${node.attempts} attempts`);
  if (busy > 0) parts.push(duration(busy));
  return parts;
}

function said(error) {
  const { code, message } = told(error);
  return [code, message].filter(Boolean).join(": ");
}

function bars(steps, total) {
  const share = (us) => `${Math.min(100, Math.max(0, (100 * us) / total)).toFixed(3)}%`;
  return h(
    "svg",
    { width: "100%", height: "12", "aria-hidden": "true" },
    steps
      .filter((step) => step.start_us !== null)
      .map((step) => {
        const took = step.duration_us ?? total - step.start_us;
        return h(
          "rect",
          {
            x: share(step.start_us),
            width: share(Math.max(took, total / 150)),
            y: WORK.has(step.what) ? "1" : "4",
            height: WORK.has(step.what) ? "10" : "4",
            rx: "2",
            class: `bar s-${shade(step.result)}`,
          },
          h("svg:title", null, title(step)),
        );
      }),
  );
}

function title(step) {
  const name = step.attempt === null ? step.what : `attempt ${step.attempt}`;
  const took = step.duration_us === null ? "" : `, ${duration(step.duration_us)}`;
  return `${name}: ${step.result}${step.code ? ` (${step.code})` : ""}${took}`;
}
