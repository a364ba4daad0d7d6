// The shell: which view an address shows, moving between them, and what every view shares.

import { Problem } from "/static/api.js";
import { h, patch } from "/static/dom.js";
import { command, connection, toast } from "/static/parts.js";
import { showRun } from "/static/run.js";
import { showRuns } from "/static/runs.js";
import { tick } from "/static/words.js";
import { showWorkflow } from "/static/workflow.js";
import { showWorkflows } from "/static/workflows.js";

const ROUTES = [
  [/^\/(?:runs\/?)?$/, showRuns, "/"],
  [/^\/runs\/([^/]+)\/?$/, showRun, "/"],
  [/^\/workflows\/?$/, showWorkflows, "/workflows"],
  [/^\/workflows\/([^/]+)\/?$/, showWorkflow, "/workflows"],
];
const RETRY_MS = 2000;

const main = document.getElementById("main");
/** @type {{path: string, leave?: () => void, moved?: () => void}} */
let here = { path: "" };

/** Shows the view of the address. */
async function route() {
  const { pathname } = location;
  if (here.path === pathname && here.moved) {
    here.moved();
    return;
  }
  here.leave?.();
  const first = here.path === "";
  const same = here.path === pathname;
  if (!same) connection("off");
  const view = { path: pathname };
  here = view;
  const found = ROUTES.map(([pattern, show, tab]) => [pattern.exec(pathname), show, tab]).find(
    ([match]) => match,
  );
  navigation(found?.[2]);
  if (!found) {
    nothing(`There is no page ${pathname}`, "The address may be misspelt.");
    return;
  }
  const context = {
    /** The place of the view's content. Nothing is drawn once the reader has gone on. */
    draw: (...children) => here === view && patch(main, ...children),
    title: (text) => here === view && (document.title = `${text} · Tenuto`),
    onLeave: (leave) => {
      if (here === view) view.leave = leave;
      else leave();
    },
    onMove: (moved) => (view.moved = moved),
    isHere: () => here === view,
    go,
  };
  if (!same) {
    patch(main, h("p", { class: "loading" }, "Loading …"));
    if (!first) main.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }
  const [, show] = found;
  const names = found[0].slice(1).map(decodeURIComponent);
  while (here === view) {
    try {
      await show(context, ...names);
      return;
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      if (here !== view) return;
      if (problem.code !== "unreachable") {
        nothing(sentence(problem.message), sentence(problem.hint));
        return;
      }
      connection("lost", Date.now() + RETRY_MS);
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      if (here === view) connection("off");
    }
  }
}

function sentence(text) {
  return text ? text[0].toUpperCase() + text.slice(1) : "";
}

/** Goes to an address of this page. */
export function go(address, { replace = false } = {}) {
  if (replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  route();
}

function navigation(tab) {
  const links = [
    ["/", "Runs"],
    ["/workflows", "Workflows"],
  ];
  patch(
    document.getElementById("nav"),
    links.map(([path, text]) =>
      h("a", { href: path, "data-link": true, "aria-current": path === tab ? "page" : null }, text),
    ),
  );
}

function nothing(message, hint) {
  document.title = "Not found · Tenuto";
  patch(
    main,
    h(
      "section",
      { class: "empty" },
      h("h1", null, message),
      hint && h("p", null, hint),
      h("p", null, h("a", { href: "/", "data-link": true }, "All runs"), " · ", h("a", { href: "/workflows", "data-link": true }, "All workflows")),
      command("tenuto run list"),
    ),
  );
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-link]");
  if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) {
    return;
  }
  event.preventDefault();
  go(link.getAttribute("href"));
});
window.addEventListener("popstate", route);
window.addEventListener("unhandledrejection", (event) => {
  toast(event.reason?.message ?? "Something went wrong", "dead");
});
setInterval(tick, 1000);
route();
