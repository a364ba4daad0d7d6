// The list of workflows: each name with its newest version.

import { get } from "/static/api.js";
import { h } from "/static/dom.js";
import { command } from "/static/parts.js";
import { age } from "/static/words.js";

export async function showWorkflows(context) {
  context.title("Workflows");
  const items = [];
  let next = "";
  do {
    const page = await get("/workflows", { limit: 200, cursor: next });
    items.push(...page.items);
    next = page.next;
  } while (next && context.isHere());
  context.draw(
    h("div", { class: "head" }, h("h1", null, "Workflows")),
    items.length ? table(items) : lesson(),
  );
}

function table(items) {
  return h(
    "table",
    { class: "list workflows" },
    h("thead", null, h("tr", null, ["Name", "Version", "Changed", ""].map((text) => h("th", { scope: "col" }, text)))),
    h(
      "tbody",
      null,
      items.map((item) => {
        const address = `/workflows/${encodeURIComponent(item.name)}`;
        return h(
          "tr",
          { key: item.name },
          h("td", { class: "c-name" }, h("a", { href: address, "data-link": true }, item.name)),
          h("td", null, `v${item.version}`, item.versions > 1 && h("span", { class: "soft" }, ` of ${item.versions}`)),
          h("td", { class: "c-age" }, age(item.created_at)),
          h("td", { class: "c-act" }, h("a", { href: `${address}#start`, "data-link": true, class: "button" }, "Start"), " ", h("a", { href: `/?workflow=${encodeURIComponent(item.name)}`, "data-link": true }, "Runs")),
        );
      }),
    ),
  );
}

function lesson() {
  return h(
    "section",
    { class: "empty" },
    h("h2", null, "No workflows yet"),
    h("p", null, "Start the server with a file, or with a folder of them; changed files become new versions by themselves:"),
    command("tenuto dev"),
    h("p", null, "or hand one to the server that runs:"),
    command("tenuto deploy hello.yaml"),
  );
}
