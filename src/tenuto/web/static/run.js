// One run: where it stands, what it waits for, its graph and its time, live until it ends.

import { get, post } from "/static/api.js";
import { h } from "/static/dom.js";
import { drawer, keyOf, progressWords, readNode } from "/static/drawer.js";
import { eventForm } from "/static/event.js";
import { graphPane } from "/static/graph.js";
import { follow } from "/static/live.js";
import { ask, command, connection, copyButton, failure, json, toast } from "/static/parts.js";
import { timeline } from "/static/timeline.js";
import { FINAL, age, badge, lasted, shownKey } from "/static/words.js";

const READ_MS = 120; // messages that come together are one reading; a large run is read less often
const WAITS_SHOWN = 8;
const NOTES_MAX = 5_000;
const REDRAW_NODES_MAX = 300;

export async function showRun(context, id) {
  const first = await get(`/runs/${encodeURIComponent(id)}`);
  const run = first.run_id;
  const base = `/runs/${encodeURIComponent(run)}`;
  const state = {
    run: first, chosen: "", details: null, notes: new Map(), progress: new Map(), graph: null, asking: "",
  };
  const draw = () => {
    context.title(`${state.run.state} · ${state.run.workflow} ${run.slice(-8)}`);
    context.draw(view(state, actions));
  };
  const actions = {
    choose(node) {
      context.go(`${base}${node ? `?node=${encodeURIComponent(node)}` : ""}`, { replace: Boolean(state.chosen) });
    },
    async act(verb, body) {
      state.asking = verb;
      draw();
      try {
        await post(`${base}/${verb}`, body);
        toast(`${verb === "cancel" ? "Cancelled" : verb === "pause" ? "Paused" : "Resumed"} ${run.slice(-8)}`);
        await read();
      } catch (problem) {
        toast(problem.message, "dead");
      } finally {
        state.asking = "";
        draw();
      }
    },
  };

  const read = async () => {
    const fresh = await get(base);
    const before = nodeOf(state);
    state.run = fresh;
    state.graph?.paint(fresh.nodes);
    const after = nodeOf(state);
    if (after && (!before || before.state !== after.state || before.attempts !== after.attempts || before.iteration !== after.iteration)) {
      await details();
    }
    draw();
  };
  const details = async () => {
    const node = state.chosen;
    const found = await readNode(run, node).catch(() => null);
    if (state.chosen === node) state.details = found;
  };
  const reading = soon(read, READ_MS + first.nodes.length);

  async function moved() {
    const node = new URLSearchParams(location.search).get("node") ?? "";
    const known = state.run.nodes.some((line) => line.id === node) ? node : "";
    const opened = known && known !== state.chosen;
    const closed = state.chosen && !known ? state.chosen : "";
    if (known !== state.chosen) Object.assign(state, { chosen: known, details: null });
    state.graph?.mark(known);
    draw();
    if (opened) {
      document.getElementById("drawer")?.focus({ preventScroll: true });
      await details();
      draw();
    }
    if (closed) document.querySelector(`.line[data-node="${CSS.escape(closed)}"] .open`)?.focus({ preventScroll: true });
  }
  context.onMove(moved);

  let live = { stop() {}, now() {} };
  if (!FINAL.has(first.state)) {
    live = follow(`${base}/events`, {
      on(event, message) {
        if (event === "note") {
          note(state, message);
          if (state.chosen || message.kind === "progress") reading.draw(draw);
          return;
        }
        if (event === "end") {
          live.stop();
          connection("off");
        }
        reading.ask();
      },
      poll: async () => {
        await read();
        if (FINAL.has(state.run.state)) {
          live.stop();
          connection("off");
        }
      },
      told: (how, retryAt) => {
        if (!context.isHere() || FINAL.has(state.run.state)) return;
        connection(how, retryAt, () => live.now());
        if (how === "live") reading.ask();
      },
    });
  }
  const pace = setInterval(() => {
    if (!FINAL.has(state.run.state) && state.run.nodes.length <= REDRAW_NODES_MAX) draw();
  }, 1000);
  const escape = (event) => {
    if (event.key === "Escape" && state.chosen && !document.querySelector("dialog[open]")) actions.choose("");
  };
  document.addEventListener("keydown", escape);
  context.onLeave(() => {
    live.stop();
    clearInterval(pace);
    document.removeEventListener("keydown", escape);
  });

  draw();
  state.graph = await graphPane(`${base}/graph.svg`, actions.choose).catch(() => null);
  state.graph?.paint(state.run.nodes);
  await moved();
}

function nodeOf(state) {
  return state.run.nodes.find((line) => line.id === state.chosen);
}

/** Runs `read` `pause` ms after it was asked for, and never twice at a time; asked for meanwhile, once more. */
function soon(read, pause) {
  let timer = 0;
  let busy = false;
  let again = false;
  let frame = 0;
  const ask = () => {
    if (busy) again = true;
    else timer ||= setTimeout(go, pause);
  };
  const go = async () => {
    timer = 0;
    busy = true;
    try {
      await read();
    } catch {
      again = false; // the stream notices that the server is gone, and asks again
    } finally {
      busy = false;
    }
    if (again) {
      again = false;
      ask();
    }
  };
  const draw = (drawing) => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(drawing);
  };
  return { ask, draw };
}

function note(state, message) {
  if (message.kind === "progress") state.progress.set(message.node, progressWords(message));
  state.notes.set(keyOf(message), message);
  if (state.notes.size > NOTES_MAX) state.notes.delete(state.notes.keys().next().value);
}

// -- what it looks like -------------------------------------------------------------------------------------------

function view(state, actions) {
  const { run } = state;
  const line = nodeOf(state);
  const total = Math.max(1, run.ended_at ? run.lasted_us : (Date.now() - Date.parse(run.created_at)) * 1000);
  return [
    header(run, state, actions),
    run.error !== null && h("section", { key: "error", class: run.state === "cancelled" ? "panel off" : "panel bad" }, h("h2", null, "Why it ended"), failure(run.error)),
    run.quarantine && h("section", { key: "quarantine", class: "panel warn" }, h("h2", null, "Set aside"), h("p", null, run.quarantine), command(`tenuto run resume ${run.run_id}`)),
    run.go_on && h("section", { key: "go-on", class: "panel warn" }, h("h2", null, "No engine drives it"), command(run.go_on)),
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
    h("div", { class: "values", key: "values" }, begun(run), ended(run)),
    line &&
      drawer({
        line,
        details: state.details,
        notes: [...state.notes].filter(([, message]) => message.node === line.id),
        close: () => actions.choose(""),
      }),
  ];
}

function header(run, state, actions) {
  const open = !FINAL.has(run.state) && run.state !== "closing";
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
      open && (run.state === "paused" || run.quarantine) && button("resume", "Resume", () => actions.act("resume")),
      open && button("cancel", "Cancel", () => confirmCancel(run, actions), true),
    ),
    h(
      "dl",
      { class: "facts" },
      fact("Run", h("code", { class: "run-id" }, run.run_id), copyButton(run.run_id, "Copy id"), copyButton(`tenuto run show ${run.run_id}`, "Copy command")),
      fact("Version", `v${run.version}`),
      shownKey(run.key) && fact("Key", h("code", null, run.key)),
      fact("Started", age(run.created_at)),
      fact(run.ended_at ? "Lasted" : "Running for", lasted(run)),
    ),
  );
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
    body: "Attempts under way may end; nothing new begins until it is resumed.",
    yes: "Pause the run",
  });
  if (yes !== null) await actions.act("pause");
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
