// Small parts that several views use: copying, commands, JSON, questions, the state of the connection.

import { h, patch } from "/static/dom.js";
import { told } from "/static/words.js";

let toasting = 0;

/** Says something for a few seconds. */
export function toast(text, shade = "success") {
  const place = document.getElementById("toast");
  patch(place, h("p", { class: `toast s-${shade}` }, text));
  clearTimeout(toasting);
  toasting = setTimeout(() => patch(place), 4000);
}

/** Copies text; also on plain HTTP, where browsers have no clipboard for scripts. */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { class: "offscreen", value: text, readonly: true });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  toast("Copied");
}

/** `text`: what to copy, or a function that gives it. */
export function copyButton(text, label = "Copy", title = "") {
  const given = typeof text === "function" ? text : () => text;
  return h(
    "button",
    { type: "button", class: "small", title: title || given(), onclick: () => copy(given()) },
    label,
  );
}

/** A command to be copied. */
export function command(text) {
  return h("p", { class: "command" }, h("code", null, text), copyButton(text, "Copy", "Copy the command"));
}

/** A JSON value, with a button that copies it. */
export function json(value, { label = "value" } = {}) {
  const text = JSON.stringify(value, null, 2);
  return h(
    "div",
    { class: "json" },
    h("pre", { tabindex: "0", "aria-label": label }, h("code", null, text)),
    copyButton(text, "Copy", `Copy the ${label}`),
  );
}

/** A failure payload: where, code, message, and the rest of it. */
export function failure(error) {
  const given = error !== null && typeof error === "object" ? error : { message: error };
  const { node, kind, code: _code, message: _message, ...rest } = given;
  const { code, message } = told(given);
  const more = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== null));
  const head = [
    code && h("code", { class: "code", title: kind ?? null }, code),
    node && [code ? " in " : "in ", h("code", null, String(node))],
  ].filter(Boolean);
  return h(
    "div",
    { class: "failure" },
    h("p", null, head, message && `${head.length ? ": " : ""}${message}`),
    causes(given.details).map((cause) => h("p", { class: "cause" }, "because ", cause)),
    Object.keys(more).length > 0 && h("details", null, h("summary", null, "Details"), json(more.details && Object.keys(more).length === 1 ? more.details : more, { label: "details" })),
  );
}

const CAUSES_MAX = 5;

/** What a failure came of, as its details tell: the error of a child run, of the first item that failed. In words. */
function causes(details) {
  const found = [];
  for (let at = details?.cause; at !== null && typeof at === "object" && found.length < CAUSES_MAX; at = at.details?.cause) {
    const { code, message } = told(at);
    const said = [code, message].filter(Boolean).join(": ");
    found.push(at.node ? `${at.node}: ${said}` : said);
  }
  return found;
}

/**
 * Asks for a JSON value, once more where it is none, or where `check(value)` throws. `initial`: the text to begin with.
 * Resolves to `{value, text}`, or null for no.
 */
export async function askJson({ title, body, label, yes, initial = "null", check = null }) {
  let typed = initial;
  let wrong = "";
  for (;;) {
    const area = h("textarea", { class: "code", rows: String(Math.min(12, Math.max(4, typed.split("\n").length))), spellcheck: "false", value: typed });
    const answer = await ask({ title, body: [body, wrong && h("p", { class: "why bad", role: "alert" }, wrong)], yes, danger: false, reason: [label, h("span", { class: "soft" }, " (JSON)")], input: area });
    if (answer === null) return null;
    typed = answer;
    let value;
    try {
      value = typed.trim() ? JSON.parse(typed) : null;
    } catch (error) {
      wrong = `this is not JSON: ${error.message}`;
      continue;
    }
    try {
      await check?.({ value, text: typed });
      return { value, text: typed };
    } catch (problem) {
      wrong = problem.message + (problem.hint ? ` (${problem.hint})` : "");
    }
  }
}

/**
 * Asks before something that matters. Resolves to what was typed, or null for no. `body`: text or elements; `reason`:
 * the label of the `input`, a line by default.
 */
export function ask({ title, body, yes, reason, danger = true, input = reason && h("input", { name: "reason", maxlength: "200", autocomplete: "off" }) }) {
  return new Promise((resolve) => {
    const dialog = h(
      "dialog",
      { class: "ask", "aria-labelledby": "ask-title" },
      h(
        "form",
        {
          onsubmit: (event) => {
            event.preventDefault();
            dialog.close("yes");
          },
        },
        h("h2", { id: "ask-title" }, title),
        typeof body === "string" ? h("p", null, body) : body,
        reason && h("label", null, reason, input),
        h(
          "div",
          { class: "buttons" },
          h("button", { type: "button", onclick: () => dialog.close("") }, "No, go back"),
          h("button", { type: "submit", class: danger ? "danger" : "primary" }, yes),
        ),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes" ? (input?.value ?? "") : null);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

const PORT = "8080"; // what `tenuto dev` takes if nothing else is said

/** The command that starts this very server. */
function again() {
  const { port } = location;
  return port && port !== PORT ? `tenuto dev --port ${port}` : "tenuto dev";
}

let counting = 0;

/**
 * Shows how the page is connected: `live`, `polling`, `paused`, `lost`, or `off` where a view needs no stream.
 * `retry`: what "Try now" does.
 */
export function connection(state, retryAt = 0, retry = null) {
  clearInterval(counting);
  const words = { live: "live", polling: "every 2 s", paused: "paused", lost: "no connection", off: "" };
  const chip = document.getElementById("link");
  chip.dataset.state = state;
  if (chip.textContent !== words[state]) chip.textContent = words[state];
  chip.title = state === "polling" ? "The stream cannot be read, so the page asks every 2 seconds" : "";
  const banner = document.getElementById("banner");
  if (state !== "lost") {
    patch(banner);
    return;
  }
  const left = h("span", { "aria-hidden": "true" });
  const count = () => {
    left.textContent = ` Next try in ${Math.max(0, Math.ceil((retryAt - Date.now()) / 1000))} s.`;
  };
  count();
  counting = setInterval(count, 500);
  banner.replaceChildren(
    h(
      "div",
      { class: "banner" },
      h("p", null, h("strong", null, "The server does not answer."), " What you see may be old; runs wait safely in the database.", left),
      h("p", null, "If it has stopped, start it again where its project is: ", h("code", null, again()), " ", copyButton(again()), retry && h("button", { type: "button", class: "small", onclick: retry }, "Try now")),
    ),
  );
}
