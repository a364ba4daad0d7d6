// What is nested in a run: the runs that it has called, the items of a foreach.

import { get } from "/static/api.js";
import { h } from "/static/dom.js";
import { command, failure } from "/static/parts.js";
import { age, badge, lasted } from "/static/words.js";

const FAILED_SHOWN = 20;

/** A link to a run; `node` is opened in it. */
export function runLink(run, node = "") {
  const query = node ? `?node=${encodeURIComponent(node)}` : "";
  return h("a", { href: `/runs/${encodeURIComponent(run)}${query}`, "data-link": true, title: run }, h("code", null, run.slice(-8)));
}

/** The newest runs that a run has called. */
export function children(run, choose) {
  const { newest, more, open } = run.children;
  if (!newest.length) return null;
  return h(
    "section",
    { key: "children", class: "panel", "aria-label": "Runs that it has called" },
    h("div", { class: "head" }, h("h2", null, "Runs that it has called"), h("span", { class: "soft" }, open ? ` ${open} under way` : "")),
    h(
      "ul",
      { class: "children" },
      newest.map((child) =>
        h(
          "li",
          { key: child.run_id },
          runLink(child.run_id),
          badge(child.state),
          h("button", { type: "button", class: "link", onclick: () => choose(child.node) }, child.item === null ? child.node : `${child.node}[${child.item}]`),
          h("span", { class: "soft" }, `${child.workflow} v${child.version}`),
          h("span", { class: "soft" }, age(child.created_at), " · ", lasted(child)),
          child.waits_for && h("p", { class: "why" }, `waits for ${child.waits_for}`),
          child.command && command(child.command),
        ),
      ),
    ),
    more && h("p", { class: "soft" }, "and others: ", h("code", null, `tenuto run list --parent ${run.run_id.slice(-8)}`)),
  );
}

/** How far a foreach is: a bar, and in words. `state` is its own: failures that it tolerates do not make it red. */
export function progress(items, state) {
  const parts = [`${items.succeeded + items.failed} of ${items.total}${items.complete ? "" : "+"}`];
  for (const name of ["failed", "active", "cancelled"]) if (items[name]) parts.push(`${items[name]} ${name}`);
  return h(
    "div",
    { class: state === "dead" ? "items bad" : "items" },
    h("progress", { value: items.succeeded + items.failed, max: Math.max(1, items.total), "aria-label": "Items that have ended" }),
    h("span", null, parts.join(", ")),
  );
}

/** The first of those items that failed. */
export async function failedItems(run, node) {
  const path = `/runs/${encodeURIComponent(run)}/nodes/${encodeURIComponent(node)}/items`;
  return get(path, { state: "dead", limit: FAILED_SHOWN });
}

/** @param page what `failedItems` gave */
export function failedView(run, node, page) {
  return [
    h(
      "ol",
      { class: "failed-items" },
      page.items.map((item) =>
        h(
          "li",
          { key: item.index },
          h("span", null, h("code", null, `${node}[${item.index}]`), item.child && [" in run ", runLink(item.child)]),
          failure(item.error),
        ),
      ),
    ),
    page.next !== null && command(`tenuto run items ${run} ${node} --state dead --all`),
  ];
}
