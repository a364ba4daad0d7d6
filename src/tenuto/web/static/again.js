// Doing a run again, in whole or in part: the plan is shown first, then asked, then done.

import { post } from "/static/api.js";
import { h } from "/static/dom.js";
import { ask, askJson, toast } from "/static/parts.js";

const PLAN_MAX = 12;

const path = (run) => `/runs/${encodeURIComponent(run.run_id)}`;

/** Goes on with a run that did not succeed. Resolves to whether it was done. */
export async function retry(run) {
  const planned = await post(`${path(run)}/retry?dry_run=true`);
  const yes = await ask({ title: "Retry this run?", body: planView(planned.plan), yes: "Retry the run", danger: false });
  if (yes === null) return false;
  await post(`${path(run)}/retry`);
  toast(`Goes on: ${run.run_id.slice(-8)}`);
  return true;
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
  const planned = await post(`${path(run)}/replay?dry_run=true`, { from: node });
  const yes = await ask({
    title: `Replay from ${node}?`,
    body: [h("p", null, "A new run begins here; this one stays as it is."), planView(planned.plan)],
    yes: "Start the new run",
    danger: false,
  });
  if (yes === null) return null;
  const { run_id } = await post(`${path(run)}/replay`, { from: node });
  toast(`Started ${run_id.slice(-8)}`);
  return run_id;
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
  if (node in plan.items) return plan.items[node] === 1 ? "one of its items" : `${plan.items[node]} of its items`;
  if (plan.inside.includes(node)) return "its run goes on";
  const whole = plan.anew.includes(node) ? ", as a whole" : "";
  if (plan.repeated.includes(node)) return `a second time: it had succeeded${whole}`;
  return plan.first.includes(node) ? `it failed or was cut short${whole}` : `it follows${whole}`;
}

function few(names) {
  const more = names.length - PLAN_MAX;
  return names.slice(0, PLAN_MAX).join(", ") + (more > 0 ? ` and ${more} more` : "");
}
