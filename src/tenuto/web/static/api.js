// The only fetcher: documents in, documents out, problems as errors.

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

let skew = 0;

/** Now by the server's clock, in milliseconds: its answers tell how far this one is off. */
export function now() {
  return Date.now() + skew;
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
    answer = await fetch(`/v1${path}`, options);
  } catch {
    throw new Problem({ code: "unreachable", detail: "the server does not answer" }, 0);
  }
  const date = Date.parse(answer.headers.get("Date") ?? "");
  // The header has whole seconds; less than that is no difference between clocks.
  if (!Number.isNaN(date)) skew = Math.abs(date - Date.now()) > 2000 ? date - Date.now() : 0;
  const document = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Problem(document, answer.status);
  return document;
}

/** A picture as an SVG element without its own style sheet: the page has the same one. */
export function picture(path) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("GET", `/v1${path}`);
    request.responseType = "document";
    request.overrideMimeType("image/svg+xml");
    request.onload = () => {
      const svg = request.responseXML?.documentElement;
      if (request.status !== 200 || svg?.nodeName !== "svg") {
        reject(new Problem({ detail: "the picture could not be read" }, request.status));
        return;
      }
      for (const style of svg.querySelectorAll("style")) style.remove();
      resolve(document.importNode(svg, true));
    };
    request.onerror = () =>
      reject(new Problem({ code: "unreachable", detail: "the server does not answer" }, 0));
    request.send();
  });
}
