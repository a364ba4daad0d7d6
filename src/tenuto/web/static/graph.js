// The graph of a workflow or a run: drawn by the server, coloured and made to answer here.

import { picture } from "/static/api.js";
import { h, patch } from "/static/dom.js";
import { mark } from "/static/words.js";

const ZOOM_MIN = 0.1;
const ZOOM_MAX = 2;
const READABLE = 0.6; // smaller than this no text can be read, so a graph that is larger is scrolled
const UNREACHED = new Set(["pending", "skipped", "cancelled"]);

/**
 * @param {string} path of the picture
 * @param {(node: string) => void} choose called with the id of a node that was clicked or entered
 * @returns {Promise<{pane: Element, paint: (nodes: object[]) => void, mark: (node: string) => void}>}
 */
export async function graphPane(path, choose) {
  const svg = await picture(path);
  const width = Number(svg.getAttribute("width"));
  const height = Number(svg.getAttribute("height"));
  const nodes = new Map([...svg.querySelectorAll(".node")].map((node) => [node.dataset.node, node]));
  const edges = [...svg.querySelectorAll(".edge")];
  const view = h("div", { class: "graph-view", role: "group", tabindex: "0", "aria-label": "Graph, scrollable" });
  const percent = h("span", { class: "soft zoom" });
  let scale = 1;
  let chosen = "";

  function zoom(wanted) {
    scale = Math.min(ZOOM_MAX, Math.max(ZOOM_MIN, wanted));
    svg.setAttribute("width", String(width * scale));
    svg.setAttribute("height", String(height * scale));
    percent.textContent = `${Math.round(scale * 100)} %`;
  }

  const whole = () => Math.min((view.clientWidth - 2) / width, (view.clientHeight - 2) / height, 1);

  function answer(event) {
    const node = event.target.closest(".node");
    if (!node) return;
    if (event.type === "keydown") {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
    }
    choose(node.dataset.node);
  }
  svg.addEventListener("click", answer);
  svg.addEventListener("keydown", answer);
  view.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(scale * (event.deltaY < 0 ? 1.1 : 1 / 1.1));
    },
    { passive: false },
  );

  patch(view, svg);
  const tool = (label, text, act) =>
    h("button", { type: "button", class: "small", title: label, "aria-label": label, onclick: act }, text);
  const pane = h(
    "div",
    { class: "graph-pane", keep: true, key: path },
    h(
      "div",
      { class: "tools" },
      percent,
      tool("Smaller", "−", () => zoom(scale / 1.25)),
      tool("Larger", "+", () => zoom(scale * 1.25)),
      tool("Fit the whole graph", "Fit", () => zoom(whole())),
    ),
    view,
  );
  zoom(1);
  requestAnimationFrame(() => {
    if (view.clientWidth) zoom(Math.max(Math.min((view.clientWidth - 2) / width, 1), READABLE));
    view.scrollLeft = (width * scale - view.clientWidth) / 2;
  });

  function paint(lines) {
    const states = new Map(lines.map((line) => [line.id, line]));
    for (const line of lines) {
      const node = nodes.get(line.id);
      if (node) byHand(node, line.given);
      if (node && line.items && !line.given) count(node, line.items);
      if (node && line.undo) node.dataset.undo = line.undo;
      if (!node || node.dataset.state === line.state) continue;
      node.dataset.state = line.state;
      node.querySelector(".mark").setAttribute("d", mark(line.state));
      const said = node.getAttribute("aria-label");
      node.setAttribute("aria-label", `${said.slice(0, said.lastIndexOf(", "))}, ${line.state}`);
    }
    for (const edge of edges) {
      const source = states.get(edge.dataset.from);
      const target = states.get(edge.dataset.to);
      const lit = Boolean(source && target && followed(edge, source, target));
      // The last one is drawn above the others.
      if (lit && edge.classList.contains("lit") !== lit) edge.parentNode.append(edge);
      edge.classList.toggle("lit", lit);
    }
  }

  function markNode(node) {
    nodes.get(chosen)?.classList.remove("chosen");
    chosen = node;
    nodes.get(chosen)?.classList.add("chosen");
  }

  return { pane, paint, mark: markNode };
}

/** Says of a node that was skipped that its output was given by hand, in place of what it does. */
function byHand(node, given) {
  const detail = node.querySelector(".detail");
  if (given && node.dataset.words === undefined) {
    node.dataset.words = detail.textContent;
    detail.textContent = "given by hand";
  } else if (!given && node.dataset.words !== undefined) {
    detail.textContent = node.dataset.words;
    delete node.dataset.words;
  }
}

/** Moves the bar of a foreach, as `views/picture.py` draws it. */
function count(node, items) {
  const track = node.querySelector(".track");
  const whole = Number(track.getAttribute("width"));
  const share = (part) => (items.total ? (whole * part) / items.total : 0);
  const [good, bad] = node.querySelectorAll(".bar");
  good.setAttribute("width", share(items.succeeded).toFixed(1));
  bad.setAttribute("x", (Number(track.getAttribute("x")) + share(items.succeeded)).toFixed(1));
  bad.setAttribute("width", share(items.failed).toFixed(1));
  const failed = items.failed ? `, ${items.failed} failed` : "";
  const text = `foreach ${items.succeeded + items.failed} of ${items.total}${items.complete ? "" : "+"}${failed}`;
  const detail = node.querySelector(".detail");
  if (detail.textContent !== text) detail.textContent = text;
}

function followed(edge, source, target) {
  const ends = { success: ["success"], failure: ["dead"], always: ["success", "dead"] };
  if (!ends[edge.dataset.on].includes(source.state) || UNREACHED.has(target.state)) return false;
  return !source.took || source.took.includes(target.id);
}
