// The form that starts a run: a JSON editor that knows the workflow's input schema, and says where an input is wrong.

import { post } from "/static/api.js";
import { h, patch } from "/static/dom.js";
import { quoted } from "/static/words.js";
import { copyButton } from "/static/parts.js";

const LEVELS_MAX = 6;

/**
 * @param version document of a version. `input`: what the form begins with, undefined for an example made from the
 *   schema. `started(run)` is called with the run's document.
 */
export function startForm(version, input, started) {
  const schema = version.input_schema;
  const numbers = h("pre", { class: "numbers", "aria-hidden": "true" });
  const errors = h("div", { class: "errors", id: "input-errors", role: "alert" });
  const area = h("textarea", {
    id: "input",
    name: "input",
    class: "code",
    spellcheck: "false",
    autocapitalize: "off",
    autocomplete: "off",
    "aria-describedby": "input-errors",
    value: JSON.stringify(input !== undefined ? input : schema ? sample(schema, schema, 0) ?? {} : {}, null, 2),
    oninput: () => changed(),
    onscroll: () => {
      numbers.scrollTop = area.scrollTop;
    },
    onkeydown: (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
    },
  });
  const key = h("input", { id: "key", name: "key", autocomplete: "off", placeholder: "none", maxlength: "500" });
  const button = h("button", { type: "submit", class: "primary" }, "Start a run");

  function changed() {
    area.removeAttribute("aria-invalid");
    patch(errors);
    lines(0);
  }

  function lines(wrong) {
    const count = area.value.split("\n").length;
    area.rows = Math.min(24, Math.max(5, count + 1));
    patch(
      numbers,
      Array.from({ length: count }, (_, at) =>
        h("span", { class: at + 1 === wrong ? "wrong" : null }, `${at + 1}\n`),
      ),
    );
  }

  function complain(message, place, path) {
    area.setAttribute("aria-invalid", "true");
    const line = place ? area.value.slice(0, place[0]).split("\n").length : 0;
    patch(
      errors,
      h("p", null, line ? h("strong", null, `Line ${line}`) : "", line ? ": " : "", path && h("code", null, path), path ? ": " : "", message),
    );
    lines(line);
    area.focus();
    if (place) area.setSelectionRange(place[0], place[1]);
  }

  async function submit(event) {
    event.preventDefault();
    changed();
    let input;
    try {
      input = JSON.parse(area.value.trim() || "null");
    } catch (error) {
      complain(`this is not JSON: ${plainly(error)}`, at(area.value, error));
      return;
    }
    button.disabled = true;
    try {
      const body = { workflow: version.name, version: version.version, input };
      if (key.value) body.key = key.value;
      started(await post("/runs", body));
    } catch (problem) {
      const path = problem.path ?? "";
      const message = path && problem.message.startsWith(`${path}: `) ? problem.message.slice(path.length + 2) : problem.message;
      if (path === "input" || /^input[.[]/.test(path)) {
        complain(message, find(area.value, steps(path).slice(1)), path);
      } else complain(message + (problem.hint ? ` (${problem.hint})` : ""), null, path);
    } finally {
      button.disabled = false;
    }
  }

  const form = h(
    "form",
    { class: "start", id: "start", onsubmit: submit },
    h("label", { for: "input" }, "Input", h("span", { class: "soft" }, schema ? required(schema) : " (any JSON)")),
    h("div", { class: "editor" }, numbers, area),
    errors,
    h("label", { for: "key" }, "Key", h("span", { class: "soft" }, " (optional: the same key starts a run once)")),
    key,
    h("div", { class: "buttons" }, button, h("span", { class: "soft hint" }, "Ctrl + Enter"), h("span", { class: "grow" }), commandOf(version, area)),
  );
  lines(0);
  return form;
}

function commandOf(version, area) {
  const text = () => {
    let input = area.value;
    try {
      input = JSON.stringify(JSON.parse(input));
    } catch {
      // It is copied as it stands.
    }
    return `tenuto run start ${quoted(version.name)} --input ${quoted(input)}`;
  };
  return copyButton(text, "Copy as command", "Copy the command that starts this run");
}

function required(schema) {
  const names = Array.isArray(schema.required) ? schema.required : [];
  return names.length ? ` (required: ${names.join(", ")})` : "";
}

/** An input to begin with: defaults, examples and constants of a schema, and empty values for what it requires. */
export function sample(schema, root, level) {
  if (schema === null || typeof schema !== "object" || level > LEVELS_MAX) return null;
  if (typeof schema.$ref === "string") {
    const target = schema.$ref
      .split("/")
      .slice(1)
      .reduce((value, part) => value?.[part.replaceAll("~1", "/").replaceAll("~0", "~")], root);
    return sample(target, root, level + 1);
  }
  if ("default" in schema) return schema.default;
  if (Array.isArray(schema.examples) && schema.examples.length) return schema.examples[0];
  if ("const" in schema) return schema.const;
  if (Array.isArray(schema.enum) && schema.enum.length) return schema.enum[0];
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  if (type === "object" || schema.properties) {
    const needed = new Set(Array.isArray(schema.required) ? schema.required : []);
    const made = {};
    const properties = schema.properties ?? {};
    for (const [name, part] of Object.entries(properties)) {
      const told = part && typeof part === "object" && ("default" in part || part.examples?.length);
      if (needed.has(name) || told) made[name] = sample(part, root, level + 1);
    }
    for (const name of needed) if (!(name in properties)) made[name] = null;
    return made;
  }
  if (type === "array") return [];
  if (type === "string") return "";
  if (type === "boolean") return false;
  if (type === "integer" || type === "number") return least(schema);
  for (const several of ["oneOf", "anyOf", "allOf"]) {
    if (Array.isArray(schema[several]) && schema[several].length) {
      return sample(schema[several][0], root, level + 1);
    }
  }
  return null;
}

function least(schema) {
  if (typeof schema.minimum === "number") return schema.minimum;
  if (typeof schema.exclusiveMinimum === "number") return Math.floor(schema.exclusiveMinimum) + 1;
  return 0;
}

/** `input.items[2].name` as its steps. */
function steps(path) {
  return [...path.matchAll(/\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]|([^.[\]]+)/g)].map(
    ([, index, quotedName, name]) => (index === undefined ? (quotedName ?? name) : Number(index)),
  );
}

function plainly(error) {
  return error.message.replace(/^JSON\.parse: /, "").replace(/ \(line \d+ column \d+\)$/, "");
}

/** Where a JSON error is, as far as the browser says. */
function at(text, error) {
  const position = /position (\d+)/.exec(error.message);
  if (position) return [Number(position[1]), Number(position[1]) + 1];
  const place = /line (\d+) column (\d+)/.exec(error.message);
  if (place) {
    const before = text.split("\n").slice(0, Number(place[1]) - 1);
    const start = before.join("\n").length + (before.length ? 1 : 0) + Number(place[2]) - 1;
    return [start, start + 1];
  }
  return /end of (JSON )?(input|data)/i.test(error.message) ? [text.length, text.length] : null;
}

/** Where the value at some steps stands in valid JSON text; where it is missing, what should hold it. */
function find(text, wanted) {
  let at = 0;
  const blank = () => {
    while (/\s/.test(text[at] ?? "")) at += 1;
  };
  const string = () => {
    const start = at;
    at += 1;
    while (text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
    at += 1;
    return JSON.parse(text.slice(start, at));
  };
  /** Passes one value and gives the place of what is wanted in it. */
  const value = (left) => {
    blank();
    const start = at;
    let found = null;
    const open = text[at];
    if (open === '"') string();
    else if (open === "{" || open === "[") {
      at += 1;
      blank();
      for (let index = 0; text[at] !== "}" && text[at] !== "]"; index += 1) {
        let name = index;
        if (open === "{") {
          blank();
          name = string();
          blank();
          at += 1;
        }
        const inside = left.length && left[0] === name ? value(left.slice(1)) : void value([]);
        found ??= inside ?? null;
        blank();
        if (text[at] === ",") at += 1;
        blank();
      }
      at += 1;
    } else while (at < text.length && !/[\s,\]}]/.test(text[at])) at += 1;
    return found ?? [start, open === "{" || open === "[" ? start + 1 : at];
  };
  return value(wanted);
}
