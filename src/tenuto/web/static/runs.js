// The list of runs: filtered by the address, live, older ones by cursor.

import { get, search } from "/static/api.js";
import { h, icon } from "/static/dom.js";
import { follow } from "/static/live.js";
import { command, connection } from "/static/parts.js";
import { FINAL, RUN_STATES, age, badge, lasted, mark, shade, shownKey } from "/static/words.js";

const LIMIT = 50;
const COUNT_MS = 1000; // counting reads more than a line, so it is done less often

export async function showRuns(context) {
  context.title("Runs");
  const filter = readFilter();
  const state = { filter, runs: [], next: null, workflows: [], paused: false, missed: new Map(), busy: false, counts: null };
  const query = (cursor) => ({ ...filter, limit: LIMIT, cursor });
  const [page, workflows] = await Promise.all([
    get("/runs", query("")),
    get("/workflows", { limit: 200 }),
  ]);
  Object.assign(state, { runs: page.items, next: page.next, workflows: workflows.items });

  const draw = () => context.draw(view(state, actions));
  const count = counting(state, draw);
  const actions = {
    filter(change) {
      context.go(`/${search({ ...filter, ...change })}`, { replace: true });
    },
    pause() {
      state.paused = !state.paused;
      if (!state.paused) {
        for (const run of state.missed.values()) merge(state, run);
        state.missed.clear();
        count.ask();
      }
      connection(state.paused ? "paused" : "live");
      draw();
    },
    async older() {
      state.busy = true;
      draw();
      const more = await get("/runs", query(state.next)).finally(() => {
        state.busy = false;
      });
      const known = new Set(state.runs.map((run) => run.run_id));
      state.runs.push(...more.items.filter((run) => !known.has(run.run_id)));
      state.next = more.next;
      draw();
    },
  };

  const changed = (run) => {
    const isKnown = () => state.missed.has(run.run_id) || state.runs.some((known) => known.run_id === run.run_id);
    if (!state.paused) merge(state, run);
    else if (fits(state.filter, run) || isKnown()) state.missed.set(run.run_id, run);
    schedule(draw);
    count.ask();
  };
  // What changed between the first page and the stream's beginning is in no message.
  let lostOnce = true;
  let heard = new Set(); // whom the stream told of since the page was asked for: what that says may be older
  const catchUp = async () => {
    lostOnce = false;
    const newer = (heard = new Set());
    try {
      const { items } = await get("/runs", query(""));
      if (heard === newer) for (const run of items) if (!newer.has(run.run_id)) changed(run);
    } catch {
      lostOnce = true; // the stream notices that the server is gone
    }
  };
  const live = follow("/runs/events", {
    on: (event, run) => {
      if (event !== "run") return;
      heard.add(run.run_id);
      changed(run);
    },
    poll: async () => {
      for (const run of (await get("/runs", query(""))).items) changed(run);
    },
    told: (how, retryAt) => {
      if (!context.isHere()) return;
      if (how === "live" && lostOnce) catchUp();
      lostOnce ||= how !== "live";
      connection(how === "live" && state.paused ? "paused" : how, retryAt, () => live.now());
    },
  });
  context.onLeave(() => {
    live.stop();
    count.stop();
  });
  draw();
  count.ask(0);
}

/** Keeps how many runs there are of each state, where the list is of all: of a choice nobody has counted. */
function counting(state, draw) {
  let timer = 0;
  let again = false;
  let stopped = Boolean(state.filter.workflow || state.filter.key);
  const ask = (pause = COUNT_MS) => {
    if (stopped || state.paused) return;
    again = true;
    timer ||= setTimeout(go, pause);
  };
  const go = async () => {
    again = false;
    const counts = await get("/runs/counts").catch(() => state.counts);
    timer = 0;
    if (stopped || state.paused) return;
    state.counts = counts;
    draw();
    if (again) ask();
  };
  return {
    ask,
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}

function readFilter() {
  const given = new URLSearchParams(location.search);
  return Object.fromEntries(["state", "workflow", "key"].map((name) => [name, given.get(name) ?? ""]));
}

let scheduled = 0;

/** Draws at most once per frame, however many messages arrive. */
function schedule(draw) {
  cancelAnimationFrame(scheduled);
  scheduled = requestAnimationFrame(draw);
}

function merge(state, run) {
  const at = state.runs.findIndex((known) => known.run_id === run.run_id);
  if (!fits(state.filter, run)) {
    if (at >= 0) state.runs.splice(at, 1);
    return;
  }
  if (at >= 0) {
    state.runs[at] = run;
    return;
  }
  // Ids grow with time. What is older than the last line comes with its page.
  const oldest = state.runs.at(-1);
  if (state.next && oldest && run.run_id < oldest.run_id) return;
  state.runs.push(run);
  state.runs.sort((a, b) => (a.run_id < b.run_id ? 1 : -1));
}

function fits(filter, run) {
  return (
    (!filter.state || filter.state === run.state) &&
    (!filter.workflow || filter.workflow === run.workflow) &&
    (!filter.key || filter.key === run.key)
  );
}

function view(state, actions) {
  const filtered = Object.values(state.filter).some(Boolean);
  return [
    h("div", { class: "head" }, h("h1", null, "Runs"), pauseButton(state, actions)),
    h(
      "div",
      { class: "filters" },
      h(
        "div",
        { class: "chips", role: "group", "aria-label": "State" },
        ["", ...RUN_STATES].map((name) => chip(name, state, actions)),
      ),
      workflowFilter(state, actions),
      h("input", {
        type: "search",
        "aria-label": "Key",
        placeholder: "Key",
        value: state.filter.key,
        onchange: (event) => actions.filter({ key: event.target.value.trim() }),
      }),
    ),
    state.runs.length ? table(state) : filtered ? noneMatch(actions) : lesson(state),
    state.next &&
      h("p", { class: "more" }, h("button", { type: "button", disabled: state.busy, onclick: actions.older }, state.busy ? "Loading …" : "Older runs")),
  ];
}

function pauseButton(state, actions) {
  const waiting = state.missed.size ? ` (${state.missed.size} changed)` : "";
  return h(
    "button",
    { type: "button", "aria-pressed": String(state.paused), onclick: actions.pause },
    state.paused ? `Go on${waiting}` : "Hold the list still",
  );
}

function chip(name, state, actions) {
  const chosen = state.filter.state === name;
  const { counts } = state;
  const many = counts && (name ? counts[name] : Object.values(counts).reduce((sum, each) => sum + each, 0));
  return h(
    "button",
    {
      type: "button",
      key: `chip-${name}`,
      class: name ? `chip s-${shade(name)}` : "chip",
      "aria-pressed": String(chosen),
      title: many ? `${many.toLocaleString()} ${many === 1 ? "run" : "runs"}` : null,
      onclick: () => actions.filter({ state: chosen ? "" : name }),
    },
    name && icon(mark(name), 12),
    name ? name.replaceAll("_", " ") : "all",
    many > 0 && h("span", { class: "many", "aria-hidden": "true" }, many.toLocaleString()),
  );
}

function workflowFilter(state, actions) {
  const names = state.workflows.map((workflow) => workflow.name);
  const chosen = state.filter.workflow;
  if (chosen && !names.includes(chosen)) names.unshift(chosen);
  return h(
    "select",
    {
      "aria-label": "Workflow",
      value: chosen,
      onchange: (event) => actions.filter({ workflow: event.target.value }),
    },
    h("option", { value: "" }, "all workflows"),
    names.map((name) => h("option", { value: name }, name)),
  );
}

function table(state) {
  return h(
    "table",
    { class: "list" },
    h(
      "thead",
      null,
      h("tr", null, ["State", "Workflow", "Key", "Run", "Started", "Lasted"].map((text) => h("th", { scope: "col" }, text))),
    ),
    h("tbody", null, state.runs.map(row)),
  );
}

/** A line of the list. */
export function row(run) {
  const address = `/runs/${encodeURIComponent(run.run_id)}`;
  return h(
    "tr",
    { key: run.run_id, "data-run": run.run_id },
    h("td", { class: "c-state" }, badge(run.state)),
    h("td", { class: "c-name" }, h("a", { href: address, "data-link": true }, run.workflow), h("span", { class: "soft" }, ` v${run.version}`)),
    h("td", { class: "c-key" }, shownKey(run.key)),
    h("td", { class: "c-id" }, h("code", { title: run.run_id }, `…${run.run_id.slice(-8)}`)),
    h("td", { class: "c-age" }, age(run.created_at)),
    h("td", { class: FINAL.has(run.state) ? "c-lasted" : "c-lasted open" }, lasted(run)),
  );
}

function noneMatch(actions) {
  return h(
    "section",
    { class: "empty" },
    h("h2", null, "No run matches"),
    h("p", null, "Runs that come to match appear here by themselves."),
    h("p", null, h("button", { type: "button", onclick: () => actions.filter({ state: "", workflow: "", key: "" }) }, "Show all runs")),
  );
}

function lesson(state) {
  const [first] = state.workflows;
  if (!first) {
    return h(
      "section",
      { class: "empty" },
      h("h2", null, "Nothing here yet"),
      h("p", null, "A workflow is a YAML file. Save one beside the server's others, or hand one over:"),
      command("tenuto dev"),
      h("p", null, h("code", null, "tenuto init"), " makes a small project with a workflow, a task and a test."),
    );
  }
  return h(
    "section",
    { class: "empty" },
    h("h2", null, "No runs yet"),
    h("p", null, "Start one from a workflow's page:"),
    h(
      "ul",
      { class: "cards" },
      state.workflows.slice(0, 12).map((workflow) =>
        h("li", null, h("a", { href: `/workflows/${encodeURIComponent(workflow.name)}`, "data-link": true, class: "button primary" }, `Start ${workflow.name}`)),
      ),
    ),
    h("p", null, "or from the command line:"),
    command(`tenuto run start ${first.name} --input '{}'`),
  );
}
