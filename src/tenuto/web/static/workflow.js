// One workflow: its graph, a form that starts it, its versions, its source and its latest runs.

import { get } from "/static/api.js";
import { h } from "/static/dom.js";
import { startForm } from "/static/form.js";
import { graphPane } from "/static/graph.js";
import { json } from "/static/parts.js";
import { row } from "/static/runs.js";
import { age } from "/static/words.js";

const RUNS_SHOWN = 8;

export async function showWorkflow(context, name) {
  const asked = new URLSearchParams(location.search);
  const chosen = Number(asked.get("version")) || 0;
  const like = asked.get("input");
  const base = `/workflows/${encodeURIComponent(name)}`;
  const versions = await get(`${base}/versions`, { limit: 100 });
  const newest = versions.items[0].version;
  const version = await get(`${base}/versions/${chosen || newest}`);
  const [runs, graph, before] = await Promise.all([
    get("/runs", { workflow: name, limit: RUNS_SHOWN }),
    graphPane(`${base}/versions/${version.version}/graph.svg`, showInSource).catch(() => null),
    like && get(`/runs/${encodeURIComponent(like)}`).catch(() => null),
  ]);
  context.title(name);
  context.draw(
    h(
      "div",
      { class: "head" },
      h("h1", null, version.name),
      h("span", { class: "badge" }, `v${version.version}`),
      version.version !== newest && h("a", { href: base, "data-link": true }, `newest is v${newest}`),
    ),
    version.description && h("p", { class: "lead" }, version.description),
    h(
      "div",
      { class: "panes" },
      h("section", { class: "pane", "aria-label": "Graph" }, graph ? graph.pane : h("p", { class: "soft" }, "The graph could not be drawn.")),
      h(
        "div",
        { class: "pane plain" },
        h(
          "section",
          { class: "panel" },
          h("h2", null, "Start a run"),
          before && h("p", { class: "soft" }, "With the input of ", h("a", { href: `/runs/${encodeURIComponent(before.run_id)}`, "data-link": true }, `…${before.run_id.slice(-8)}`), "."),
          h("div", { keep: true, key: `start-${version.version}-${like ?? ""}` }, startForm(version, before?.input, (run) => context.go(`/runs/${encodeURIComponent(run.run_id)}`))),
        ),
        version.input_schema && h("section", { class: "panel" }, h("details", null, h("summary", null, "Input schema"), json(version.input_schema, { label: "schema" }))),
      ),
    ),
    h(
      "section",
      { class: "panel" },
      h("h2", null, "Latest runs"),
      runs.items.length
        ? h("table", { class: "list" }, h("tbody", null, runs.items.map(row)))
        : h("p", { class: "soft" }, "None yet."),
      runs.items.length > 0 && h("p", null, h("a", { href: `/?workflow=${encodeURIComponent(name)}`, "data-link": true }, "All runs of this workflow")),
    ),
    h("section", { class: "panel" }, h("h2", null, "Versions"), list(base, versions.items, version.version)),
    h(
      "section",
      { class: "panel" },
      h("h2", null, "Source"),
      h("pre", { class: "source", tabindex: "0", "aria-label": "Source" }, h("code", null, version.source)),
    ),
  );
  if (location.hash === "#start") document.getElementById("input")?.focus();
}

/** Selects a node's key in the source. */
function showInSource(node) {
  const text = document.querySelector(".source code")?.firstChild;
  const found = new RegExp(`^[ \\t]*["']?(${node})["']?[ \\t]*:`, "m").exec(text?.data ?? "");
  if (!found) return;
  const start = found.index + found[0].indexOf(node);
  const range = document.createRange();
  range.setStart(text, start);
  range.setEnd(text, start + node.length);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
  text.parentElement.scrollIntoView({ block: "nearest" });
  const box = text.parentElement.parentElement;
  box.scrollTop += range.getBoundingClientRect().top - box.getBoundingClientRect().top - 40;
}

function list(base, items, shown) {
  return h(
    "ul",
    { class: "versions" },
    items.map((item) =>
      h(
        "li",
        null,
        h("a", { href: `${base}?version=${item.version}`, "data-link": true, "aria-current": item.version === shown ? "true" : null }, `v${item.version}`),
        " ",
        age(item.created_at),
        h("code", { class: "soft" }, ` ${item.hash.slice(0, 12)}`),
      ),
    ),
  );
}
