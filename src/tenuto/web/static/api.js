// Documents in, documents out, problems as errors.

import { fetchAs } from "/static/token.js";

/** What went wrong, as RFC 9457 says it; `code` is `unreachable` where nobody answered. */
export class Problem extends Error {
  constructor(body, status) {
    super(body.detail || body.title || `the server answered ${status}`);
    this.status = status;
    this.code = body.code ?? "";
    this.path = body.path ?? "";
    this.hint = body.hint ?? "";
    this.findings = body.findings ?? [];
  }
}

export function get(path, query = {}) {
  return ask("GET", path + search(query));
}

export function post(path, body = {}) {
  return ask("POST", path, body);
}

/** `?a=1&b=2` of the values that are set; empty for none. */
export function search(query) {
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== "" && value !== null && value !== undefined) pairs.set(name, value);
  }
  const text = pairs.toString();
  return text ? `?${text}` : "";
}

async function ask(method, path, body) {
  const options = { method, headers: { Accept: "application/json" } };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetchAs(`/v1${path}`, options);
  } catch {
    throw new Problem({ code: "unreachable", detail: "the server does not answer" }, 0);
  }
  const document = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Problem(document, answer.status);
  return document;
}

// The one door through which text becomes elements: pictures of this server, as XML, which runs nothing.
const door = globalThis.trustedTypes?.createPolicy("picture", { createHTML: (text) => text });

/** A picture as an SVG element without its own style sheet: the page has the same one. */
export async function picture(path) {
  let answer;
  try {
    answer = await fetchAs(`/v1${path}`, { headers: { Accept: "image/svg+xml" } });
  } catch {
    throw new Problem({ code: "unreachable", detail: "the server does not answer" }, 0);
  }
  const text = (await answer.text()).replace(/<style>[^<]*<\/style>/, "");
  const parsed = new DOMParser().parseFromString(door ? door.createHTML(text) : text, "image/svg+xml");
  const svg = parsed.documentElement;
  if (!answer.ok || svg.nodeName !== "svg") {
    throw new Problem({ detail: "the picture could not be read" }, answer.status);
  }
  return document.importNode(svg, true);
}
