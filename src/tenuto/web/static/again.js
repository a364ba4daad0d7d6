// Doing a run again, in whole or in part: the plan is shown first, then asked, then done.

import { post } from "/static/api.js";
import { h } from "/static/dom.js";
import { ask, askJson, toast } from "/static/parts.js";

const PLAN_MAX = 12;

const path = (run) => `/runs/${encodeURIComponent(run.run_id)}`;

/** Goes on with a run that did not succeed. Resolves to whether it was done. */
export async function retry(run) {
  const planned = await planOf(run, `${path(run)}/retry?dry_run=true`);
  if (planned === null) return false;
  const yes = await ask({ title: "Retry this run?", body: [planView(planned.plan), bounded(run)], yes: "Retry the run", danger: false });
  if (yes === null) return false;
  await post(`${path(run)}/retry`);
  toast(`Goes on: ${run.run_id.slice(-8)}`);
  return true;
}

/** What a retry does not change: the bound of a loop that was reached. */
function bounded(run) {
  if (run.error?.code !== "loop_exhausted") return null;
  return h("p", { class: "why" }, "A loop has reached its max, and has not a pass more after a retry. Raise max in the definition, and start a new run of that.");
}

/** The same, with one node taken as done. */
export async function retryWithout(run, node) {
  const planned = await post(`${path(run)}/retry?dry_run=true`, { skip: { node } });
  const output = await askJson({
    title: `Retry without ${node}?`,
    body: [h("p", null, "It is taken as done, with the output that you give."), planView(planned.plan)],
    label: `Output of ${node}`,
    yes: "Retry the run",
  });
  if (output === null) return false;
  await post(`${path(run)}/retry`, { skip: { node, output: output.value } });
  toast(`Goes on: ${run.run_id.slice(-8)}`);
  return true;
}

/** Takes a node that is under way as done. */
export async function skip(run, node) {
  const output = await askJson({
    title: `Skip ${node}?`,
    body: "What it has under way is cancelled, and it ends as success with the output that you give.",
    label: `Output of ${node}`,
    yes: "Skip the node",
  });
  if (output === null) return false;
  await post(`${path(run)}/nodes/${encodeURIComponent(node)}/skip`, { output: output.value });
  toast(`Skipped ${node}`);
  return true;
}

/** Starts a new run that keeps what this one did before a node. Resolves to its id, or null. */
export async function replay(run, node) {
  const planned = await planOf(run, `${path(run)}/replay?dry_run=true`, { from: node });
  if (planned === null) return null;
  const initial = JSON.stringify(run.input, null, 2);
  const body = ({ value, text }) => (text === initial ? { from: node } : { from: node, input: value });
  let changed = planned.plan.changed;
  let made = null;
  const answer = await askJson({
    title: `Replay from ${node}?`,
    body: [h("p", null, "A new run begins here; this one stays as it is."), planView(planned.plan)],
    label: "Input of the new run",
    yes: "Start the new run",
    initial,
    async check(given) {
      if (given.value === null && run.input !== null) throw new Error("null stands for the old input here; give another value");
      const { plan } = await post(`${path(run)}/replay?dry_run=true`, body(given));
      const seen = changed;
      changed = plan.changed;
      if (plan.changed.some((name) => !seen.includes(name))) {
        throw new Error(`these are kept, although they have read the old input: ${few(plan.changed)}; start it all the same?`);
      }
      made = (await post(`${path(run)}/replay`, body(given))).run_id; // here, so that a refused input can be mended
    },
  });
  if (answer === null) return null;
  toast(`Started ${made.slice(-8)}`);
  return made;
}

/** Ends a run at once. */
export async function terminate(run) {
  const reason = await ask({
    title: "Terminate this run?",
    body: "It ends at once, and so do the runs that it has called. Finished work is not undone, and on_failure does not run. This cannot be taken back.",
    yes: "Terminate the run",
    reason: "Reason (optional)",
  });
  if (reason === null) return false;
  await post(`${path(run)}/terminate`, reason ? { reason } : {});
  toast(`Terminated ${run.run_id.slice(-8)}`);
  return true;
}

/** The plan of doing it again; where that is refused, a dialog says why and what to do instead, and it is null. */
async function planOf(run, address, body = {}) {
  try {
    return await post(address, body);
  } catch (problem) {
    if (problem.code !== "conflict") throw problem;
    const undone = run.compensation !== "none";
    const fresh = `/workflows/${encodeURIComponent(run.workflow)}?input=${encodeURIComponent(run.run_id)}#start`;
    const instead = undone
      ? "Its finished work has been undone, so nothing can go on from it: a new run has to do all of it."
      : "Open a node and take “Replay from here …”, which begins a new run there, with the same input or another one; or do all of it anew.";
    const yes = await ask({
      title: "That cannot be done",
      body: [h("p", { class: "why bad" }, problem.message + (problem.hint ? ` (${problem.hint})` : "")), h("p", null, instead)],
      yes: "Start again with this input …",
      danger: false,
    });
    if (yes !== null) location.assign(fresh);
    return null;
  }
}

/** What is done again and what is kept. */
function planView(plan) {
  const nodes = plan.nodes.filter((node) => node !== plan.skipped);
  return h(
    "div",
    { class: "plan" },
    nodes.length > 0 && h("h3", null, "Done again, where their turn comes"),
    h(
      "ul",
      null,
      nodes.slice(0, PLAN_MAX).map((node) => h("li", null, h("code", null, node), " ", h("span", { class: "soft" }, how(plan, node)))),
      nodes.length > PLAN_MAX && h("li", { class: "soft" }, `and ${nodes.length - PLAN_MAX} more`),
    ),
    plan.kept.length > 0 && h("p", { class: "soft" }, `Kept: ${few(plan.kept)}`),
    plan.changed.length > 0 && h("p", { class: "why" }, `Kept, although the input that they have read is another one now: ${few(plan.changed)}`),
    plan.called.length > 0 && h("p", { class: "why" }, `Who was told the callback_key answers the old run: ${few(plan.called)}`),
  );
}

function how(plan, node) {
  if (node in plan.items) {
    const of = plan.listed?.[node];
    const whole = of === undefined ? "its items" : `its ${of} item${of === 1 ? "" : "s"}`;
    return `${plan.items[node] === 1 ? "one" : plan.items[node]} of ${whole}`;
  }
  if (plan.inside.includes(node)) return "its run goes on";
  if (plan.unbegun?.includes(node)) return "it had not begun";
  const whole = plan.anew.includes(node) ? ", as a whole" : "";
  if (plan.repeated.includes(node)) return `a second time: it had succeeded${whole}`;
  return plan.first.includes(node) ? `it failed or was cut short${whole}` : `it follows${whole}`;
}

function few(names) {
  const more = names.length - PLAN_MAX;
  return names.slice(0, PLAN_MAX).join(", ") + (more > 0 ? ` and ${more} more` : "");
}
