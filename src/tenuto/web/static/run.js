// One run: where it stands, what it waits for, its graph and its time, live until it ends.

import { get, post } from "/static/api.js";
import { keyOf, progressWords, readNode } from "/static/drawer.js";
import { graphPane } from "/static/graph.js";
import { follow } from "/static/live.js";
import { failedItems } from "/static/nested.js";
import { connection, toast } from "/static/parts.js";
import { nodeOf, view } from "/static/runview.js";
import { FINAL } from "/static/words.js";

const READ_MS = 120; // messages that come together are one reading; a large run is read less often
const LOOK_MS = 5_000; // that somebody takes a task which is ready is no message: it is looked for
const NOTES_MAX = 5_000;
const REDRAW_NODES_MAX = 300;

export async function showRun(context, id) {
  const first = await get(`/runs/${encodeURIComponent(id)}`);
  const run = first.run_id;
  const base = `/runs/${encodeURIComponent(run)}`;
  const state = {
    run: first, chosen: "", details: null, failed: null, notes: new Map(), progress: new Map(), graph: null, asking: "",
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
    /** Does something that asks by itself. `make` resolves to what came of it, false or null for nothing. */
    async again(make) {
      state.asking = "again";
      draw();
      try {
        const made = await make(state.run);
        if (typeof made === "string") context.go(`/runs/${encodeURIComponent(made)}`);
        else if (made) await comeBack();
      } catch (problem) {
        toast(problem.message, "dead");
      } finally {
        state.asking = "";
        draw();
      }
    },
  };

  const comeBack = async () => {
    await read();
    if (!FINAL.has(state.run.state)) attend();
  };
  let asked = 0;
  let shown = 0;
  const read = async () => {
    const mine = (asked += 1);
    const fresh = await get(base);
    if (mine < shown) return; // overtaken by a later one
    shown = mine;
    const before = nodeOf(state);
    state.run = fresh;
    state.graph?.paint(fresh.nodes);
    const after = nodeOf(state);
    if (after && (!before || before.state !== after.state || before.attempts !== after.attempts || before.iteration !== after.iteration || before.items?.failed !== after.items?.failed)) {
      await details();
    }
    draw();
  };
  const details = async () => {
    const node = state.chosen;
    const bad = nodeOf(state)?.items?.failed > 0;
    const [found, failed] = await Promise.all([
      readNode(run, node).catch(() => null),
      bad ? failedItems(run, node).catch(() => null) : null,
    ]);
    if (state.chosen === node) Object.assign(state, { details: found, failed });
  };
  const reading = soon(read, READ_MS + first.nodes.length);

  async function moved() {
    const node = new URLSearchParams(location.search).get("node") ?? "";
    const known = state.run.nodes.some((line) => line.id === node) ? node : "";
    const opened = known && known !== state.chosen;
    const closed = state.chosen && !known ? state.chosen : "";
    if (known !== state.chosen) Object.assign(state, { chosen: known, details: null, failed: null });
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
  function attend() {
    live.stop();
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
  if (!FINAL.has(first.state)) attend();
  const pace = setInterval(() => {
    if (!FINAL.has(state.run.state) && state.run.nodes.length <= REDRAW_NODES_MAX) draw();
  }, 1000);
  const look = setInterval(() => {
    if (!FINAL.has(state.run.state) && state.run.nodes.some((line) => line.state === "ready")) reading.ask();
  }, LOOK_MS);
  const escape = (event) => {
    if (event.key === "Escape" && state.chosen && !document.querySelector("dialog[open]")) actions.choose("");
  };
  document.addEventListener("keydown", escape);
  context.onLeave(() => {
    live.stop();
    clearInterval(pace);
    clearInterval(look);
    document.removeEventListener("keydown", escape);
  });

  draw();
  state.graph = await graphPane(`${base}/graph.svg`, actions.choose).catch(() => null);
  state.graph?.paint(state.run.nodes);
  await moved();
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
