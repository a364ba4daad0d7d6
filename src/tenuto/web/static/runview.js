// How a run looks: head, panels, values. What it does is in run.js.

import { replay, retry, retryWithout, skip, terminate } from "/static/again.js";
import { h } from "/static/dom.js";
import { drawer } from "/static/drawer.js";
import { eventForm } from "/static/event.js";
import { children, runLink } from "/static/nested.js";
import { ask, command, copyButton, failure, json } from "/static/parts.js";
import { timeline } from "/static/timeline.js";
import { FINAL, age, badge, lasted, shownKey } from "/static/words.js";

const WAITS_SHOWN = 8;
const ENDED = new Set(["pending", "success", "dead", "skipped", "cancelled"]);

/** The node of a run that is open in the drawer. */
export function nodeOf(state) {
  return state.run.nodes.find((line) => line.id === state.chosen);
}

export function view(state, actions) {
  const { run } = state;
  const line = nodeOf(state);
  const total = Math.max(1, run.ended_at ? run.lasted_us : (Date.now() - Date.parse(run.created_at)) * 1000);
  return [
    header(run, state, actions),
    run.error !== null && h("section", { key: "error", class: run.state === "cancelled" ? "panel off" : "panel bad" }, h("h2", null, "Why it ended"), failure(run.error)),
    run.quarantine && h("section", { key: "quarantine", class: "panel warn" }, h("h2", null, "Set aside"), h("p", null, run.quarantine), command(`tenuto run resume ${run.run_id}`)),
    run.go_on && h("section", { key: "go-on", class: "panel warn" }, h("h2", null, "No engine drives it"), command(run.go_on)),
    closing(run),
    waits(run, actions),
    h(
      "div",
      { class: "panes", key: "panes" },
      h("section", { key: "graph", class: "pane", "aria-label": "Graph" }, state.graph ? state.graph.pane : h("p", { class: "loading" }, "Drawing …")),
      h(
        "section",
        { key: "time", class: "pane", "aria-label": "Nodes and time" },
        timeline(run, { total, chosen: state.chosen, progress: state.progress, choose: actions.choose }),
      ),
    ),
    children(run, actions.choose),
    h("div", { class: "values", key: "values" }, begun(run), ended(run)),
    line &&
      drawer({
        run: run.run_id,
        line,
        details: state.details,
        failed: state.failed,
        acts: nodeActs(run, line, actions),
        notes: [...state.notes].filter(([, message]) => message.node === line.id),
        close: () => actions.choose(""),
      }),
  ];
}

function header(run, state, actions) {
  const over = FINAL.has(run.state);
  const open = !over && run.state !== "closing";
  const busy = state.asking !== "";
  const button = (verb, text, act, danger = false) =>
    h("button", { type: "button", key: verb, class: danger ? "danger" : null, disabled: busy, onclick: act }, text);
  return h(
    "div",
    { class: "run-head", key: "head" },
    h(
      "div",
      { class: "head" },
      h("h1", null, h("a", { href: `/workflows/${encodeURIComponent(run.workflow)}?version=${run.version}`, "data-link": true }, run.workflow)),
      badge(run.state),
      h("span", { class: "grow" }),
      open && run.state !== "paused" && button("pause", "Pause", () => confirmPause(actions)),
      open && (run.state === "paused" || run.quarantine) && button("resume", "Resume", () => resume(run, actions)),
      open && button("cancel", "Cancel", () => confirmCancel(run, actions), true),
      !over && button("terminate", "Terminate", () => actions.again(terminate), true),
      over && run.state !== "success" && button("retry", "Retry", () => actions.again(retry)),
    ),
    h(
      "dl",
      { class: "facts" },
      fact("Run", h("code", { class: "run-id" }, run.run_id), copyButton(run.run_id, "Copy id"), copyButton(`tenuto run show ${run.run_id}`, "Copy command")),
      fact("Version", `v${run.version}`),
      run.parent && fact("Called by", runLink(run.parent.run_id, run.parent.node), h("span", null, ` ${run.parent.node}${run.parent.item === null ? "" : `[${run.parent.item}]`}`)),
      run.source && fact("Replays", runLink(run.source)),
      run.epoch > 1 && fact("Retried", run.epoch === 2 ? "once" : `${run.epoch - 1} times`),
      run.priority > 0 && fact("Priority", `${run.priority}`),
      run.compensation !== "none" && fact("Undoing", run.compensation),
      shownKey(run.key) && fact("Key", h("code", null, run.key)),
      fact("Started", age(run.created_at)),
      fact(run.ended_at ? "Lasted" : "Running for", lasted(run)),
    ),
  );
}

/** What may be asked about one node: to be skipped, to be done without, to be begun with. */
function nodeActs(run, line, actions) {
  const over = FINAL.has(run.state);
  const acts = [];
  const add = (text, make) => acts.push({ text, act: () => actions.again(make) });
  if (!over && !ENDED.has(line.state)) add("Skip …", (it) => skip(it, line.id));
  if (over && run.state !== "success" && (line.state === "dead" || line.state === "cancelled")) {
    add("Retry without it …", (it) => retryWithout(it, line.id));
  }
  if (over) add("Replay from here …", (it) => replay(it, line.id));
  return acts;
}

/** A run whose outcome is decided and that is not over yet. */
function closing(run) {
  if (!run.closing) return null;
  const { outcome, drained, left, undone, failed, current } = run.closing;
  const parts = drained ? [current && `at work: ${current}`, undone && `${undone} undone`, failed && `${failed} could not be undone`, left && `${left} left to undo`].filter(Boolean) : ["it waits for attempts and runs under way to end"];
  return h("section", { key: "closing", class: "panel warn" }, h("h2", null, `It will be ${outcome.replaceAll("_", " ")}`), h("p", null, parts.join(", ") || "it is about to end"));
}

function begun(run) {
  const again = `/workflows/${encodeURIComponent(run.workflow)}?input=${encodeURIComponent(run.run_id)}#start`;
  return h(
    "section",
    { key: "input", class: "panel", "aria-label": "Input" },
    h("div", { class: "head" }, h("h2", null, "Input"), h("span", { class: "grow" }), h("a", { href: again, "data-link": true, class: "button small" }, "Start again with this input")),
    json(run.input, { label: "input" }),
    Object.keys(run.vars).length > 0 && h("details", { key: "vars" }, h("summary", null, "Vars"), json(run.vars, { label: "vars" })),
  );
}

function ended(run) {
  if (!FINAL.has(run.state) || (run.state !== "success" && run.output === null)) return null;
  return h("section", { key: "output", class: "panel", "aria-label": "Output" }, h("div", { class: "head" }, h("h2", null, "Output")), json(run.output, { label: "output" }));
}

function fact(name, ...values) {
  return h("div", { key: name }, h("dt", null, name), h("dd", null, ...values));
}

async function confirmPause(actions) {
  const yes = await ask({
    title: "Pause this run?",
    body: [
      h("p", null, "No more attempts are handed to workers until it is resumed; those under way may end."),
      h("p", null, "Nothing else stops: waits and time-outs pass, events are taken, nodes that need no worker (set, switch, wait, emit, call) go on, and the run may end."),
    ],
    yes: "Pause the run",
    danger: false,
  });
  if (yes !== null) await actions.act("pause");
}

/** Lets a run go on; of a paused one it asks what becomes of its clocks. */
async function resume(run, actions) {
  if (run.state !== "paused") {
    await actions.act("resume");
    return;
  }
  const freeze = h("input", { type: "checkbox", name: "freeze" });
  const yes = await ask({
    title: "Resume this run?",
    body: [
      h("label", { class: "check" }, freeze, " Move its deadlines by the time that it was paused"),
      h("p", { class: "soft" }, "Waits, delays and time-outs that have not passed yet then have as long as they had at the pause. What fell due meanwhile has happened; an until does not move."),
    ],
    yes: "Resume the run",
    danger: false,
  });
  if (yes !== null) await actions.act("resume", freeze.checked ? { freeze_timers: true } : {});
}

async function confirmCancel(run, actions) {
  const active = run.nodes.filter((line) => !["pending", "success", "dead", "skipped", "cancelled"].includes(line.state)).length;
  const reason = await ask({
    title: "Cancel this run?",
    body: `This cannot be taken back. ${active === 1 ? "One node is" : `${active} nodes are`} at work or waiting, and will be stopped.`,
    yes: "Cancel the run",
    reason: "Reason (optional)",
  });
  if (reason !== null) await actions.act("cancel", reason ? { reason } : {});
}

function waits(run, actions) {
  const waiting = run.nodes.filter((line) => line.waits_for);
  if (!waiting.length) return null;
  const more = waiting.length - WAITS_SHOWN;
  return h(
    "section",
    { class: "panel warn", key: "waits", "aria-label": "What it waits for" },
    waiting.slice(0, WAITS_SHOWN).map((line) =>
      h(
        "div",
        { class: "wait", key: `wait-${line.id}` },
        h("p", null, h("button", { type: "button", class: "link", onclick: () => actions.choose(line.id) }, line.id), " waits for ", line.waits_for),
        line.command && command(line.command),
        line.awaits && h("details", { key: "send" }, h("summary", null, "Send the event from here"), eventForm(line.id, line.awaits)),
      ),
    ),
    more > 0 && h("p", { class: "soft" }, `and ${more} more; they are marked in the graph`),
  );
}
