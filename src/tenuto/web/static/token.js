// Who asks: the token that this tab shows a server that wants one. It is asked for once, kept for this tab only, and
// travels in a header, never in an address.

import { h, patch } from "/static/dom.js";

const KEY = "tenuto.token";
const REFUSED = new Set(["unauthenticated", "forbidden"]);
let token = kept();
/** @type {Promise<void> | null} one question for all who wait */
let asking = null;

function kept() {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return ""; // a browser that keeps nothing: it is asked for after each reload
  }
}

function keep(text) {
  token = text;
  try {
    sessionStorage.setItem(KEY, text);
  } catch {
    // As above.
  }
}

/** `fetch` of an address of this server with the token. Where that is wanted, or another, it is asked for first. */
export async function fetchAs(address, options = {}) {
  for (;;) {
    const shown = token;
    const headers = shown ? { ...options.headers, Authorization: `Bearer ${shown}` } : options.headers;
    const answer = await fetch(address, { ...options, headers });
    if (answer.status !== 401 && answer.status !== 403) return answer;
    const problem = await answer.clone().json().catch(() => ({}));
    if (!REFUSED.has(problem.code)) return answer;
    // Somebody else may have been told a better one while this was under way.
    if (token === shown) await (asking ??= ask(shown ? problem.detail : "").finally(() => (asking = null)));
    if (options.signal?.aborted) return answer;
  }
}

function ask(why) {
  return new Promise((resolve) => {
    const input = h("input", { name: "token", type: "password", autocomplete: "off", spellcheck: "false", required: true });
    const said = h("div", { role: "alert" }, why && h("p", { class: "why bad" }, why));
    const dialog = h(
      "dialog",
      { class: "ask", "aria-labelledby": "token-title" },
      h(
        "form",
        {
          onsubmit: (event) => {
            event.preventDefault();
            const text = input.value.trim().replace(/^Bearer\s+/i, "");
            if (!/^[\x21-\x7e]+$/.test(text)) {
              patch(said, h("p", { class: "why bad" }, "That is no token."));
              return;
            }
            keep(text);
            dialog.close("yes");
          },
        },
        h("h2", { id: "token-title" }, "This server wants a token"),
        h("p", { class: "soft" }, "Of scope admin; ", h("code", null, "tenuto token create --scope admin --expires 12h"), " makes one. It is kept until this tab is closed."),
        h("label", null, "Token", input),
        said,
        h("div", { class: "buttons" }, h("button", { type: "submit", class: "primary" }, "Go on")),
      ),
    );
    dialog.addEventListener("cancel", (event) => event.preventDefault()); // without one there is nothing to see
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (dialog.returnValue === "yes") resolve();
      else ask(why).then(resolve);
    });
    document.body.append(dialog);
    dialog.showModal();
    input.focus();
  });
}
