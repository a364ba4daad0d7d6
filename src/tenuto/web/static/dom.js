// Elements as functions, and patching one tree into another so that focus, scrolling and what is typed stay.
// All text becomes text nodes: nothing is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "path", "rect", "line", "svg:title"]);

/**
 * Makes an element. `props`: attributes; `on…` are listeners, `value` and `checked` properties; null, undefined and
 * false leave one out. `key` tells siblings apart; `keep` leaves an
 * existing element alone, with all that is in it.
 */
export function h(tag, props, ...children) {
  const node = SVG_TAGS.has(tag)
    ? document.createElementNS(SVG, tag.replace("svg:", ""))
    : document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) listen(node, name.slice(2), value);
    else if (name === "key") node._key = String(value);
    else if (name === "keep") node._keep = true;
    else if (name === "value" || name === "checked") {
      node._set = { ...node._set, [name]: value };
    } else node.setAttribute(name, value === true ? "" : value);
  }
  append(node, children);
  for (const [name, value] of Object.entries(node._set ?? {})) node[name] = value;
  return node;
}

function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(!(child instanceof Node) ? String(child) : child.isConnected ? stub(child) : child);
  }
}

/** Stands for an element that is shown already, so that it need not leave the page to be shown again. */
function stub(shown) {
  const node = document.createElement("div");
  node._same = shown;
  return node;
}

function listen(node, type, handler) {
  if (!node._on) node._on = {};
  if (!(type in node._on)) node.addEventListener(type, dispatch);
  node._on[type] = handler;
}

function dispatch(event) {
  const handler = event.currentTarget._on?.[event.type];
  if (handler) handler(event);
}

/** Makes the children of `parent` like `children`, keeping the elements that can stay. */
export function patch(parent, ...children) {
  const wanted = document.createElement("div");
  append(wanted, children);
  patchChildren(parent, [...wanted.childNodes]);
}

function patchChildren(parent, wanted) {
  const keyed = new Map();
  for (const child of parent.childNodes) if (child._key) keyed.set(child._key, child);
  let at = parent.firstChild;
  for (const next of wanted) {
    if (next._same) {
      if (next._same === at) at = at.nextSibling;
      else parent.insertBefore(next._same, at);
      continue;
    }
    const found = next._key ? keyed.get(next._key) : at && !at._key ? at : null;
    if (found && alike(found, next)) {
      if (found === at) at = at.nextSibling;
      else parent.insertBefore(found, at);
      patchNode(found, next);
    } else {
      parent.insertBefore(next, at);
      for (const inner of next.querySelectorAll?.("div") ?? []) {
        if (inner._same) inner.replaceWith(inner._same);
      }
    }
  }
  while (at) {
    const after = at.nextSibling;
    at.remove();
    at = after;
  }
}

function alike(a, b) {
  return a.nodeName === b.nodeName && (a._key ?? "") === (b._key ?? "");
}

function patchNode(old, next) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== next.nodeValue) old.nodeValue = next.nodeValue;
    return;
  }
  if (old._keep) return;
  for (const { name } of [...old.attributes]) {
    // Whether a fold is open is the reader's choice.
    if (!next.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) {
      old.removeAttribute(name);
    }
  }
  for (const { name, value } of next.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old._on) for (const type of Object.keys(old._on)) old._on[type] = null;
  for (const [type, handler] of Object.entries(next._on ?? {})) listen(old, type, handler);
  patchChildren(old, [...next.childNodes]);
  if (old !== document.activeElement) {
    for (const [name, value] of Object.entries(next._set ?? {})) {
      if (old[name] !== value) old[name] = value;
    }
  }
}

/** A drawn mark of a state. */
export function icon(path, size = 14) {
  return h(
    "svg",
    { viewBox: "0 0 16 16", width: size, height: size, class: "icon", "aria-hidden": "true" },
    h("path", { d: path }),
  );
}
