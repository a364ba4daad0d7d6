// One stream of server-sent events that never gives up: back-off, resuming where it stood, polling where streams fail.

import { fetchAs } from "/static/token.js";

const BACKOFF_S = [0.5, 1, 2, 4, 8, 15];
const SILENT_MS = 60_000; // the server says something at least every 15 s; four times that is a dead connection
const POLL_MS = 2_000;
const POLLS_BEFORE_STREAM = 15;

/**
 * @param {string} path below /v1
 * @param {{on: (event: string, data: any) => void, poll: () => Promise<void>,
 *   told: (state: "live"|"polling"|"lost", retryAt?: number) => void}} options
 *   `poll` reads what the stream would have told, and fails if the server is gone.
 * @returns {{stop: () => void, now: () => void}} `now` ends the back-off.
 */
export function follow(path, { on, poll, told }) {
  let last = "";
  let failures = 0;
  let stopped = false;
  let abort = new AbortController();
  let wake = () => {};

  const pause = (ms) =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });

  async function read() {
    abort = new AbortController();
    const signal = abort.signal;
    const headers = { Accept: "text/event-stream" };
    if (last) headers["Last-Event-ID"] = last;
    const answer = await fetchAs(`/v1${path}`, { headers, signal, cache: "no-store" });
    const isStream = (answer.headers.get("Content-Type") ?? "").startsWith("text/event-stream");
    if (!answer.ok || !isStream) throw new Error(`no stream: ${answer.status}`);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let silence = setTimeout(() => abort.abort(), SILENT_MS);
    let rest = "";
    told("live");
    try {
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        failures = 0;
        clearTimeout(silence);
        silence = setTimeout(() => abort.abort(), SILENT_MS);
        const parts = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
        rest = parts.pop();
        for (const part of parts) dispatch(part);
        if (stopped) return;
      }
    } finally {
      clearTimeout(silence);
    }
  }

  function dispatch(part) {
    let event = "message";
    const data = [];
    for (const line of part.split("\n")) {
      const colon = line.indexOf(":");
      if (colon === 0) continue;
      const name = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (name === "event") event = value;
      else if (name === "data") data.push(value);
      else if (name === "id") last = value;
    }
    if (data.length || event === "end") on(event, data.length ? JSON.parse(data.join("\n")) : null);
  }

  /** Asks for news until streams deserve another try. False: the server is gone. */
  async function pollOn() {
    for (let round = 0; round < POLLS_BEFORE_STREAM && !stopped; round += 1) {
      try {
        await poll();
      } catch (problem) {
        if (problem.code !== "unreachable") throw problem;
        return false;
      }
      told("polling");
      await pause(POLL_MS);
    }
    return true;
  }

  async function run() {
    while (!stopped) {
      try {
        await read();
      } catch {
        // Whatever it was, it is answered by trying again.
      }
      if (stopped) return;
      failures += 1;
      if (failures >= 2 && (await pollOn().catch(() => false))) {
        failures = 1; // one more failed stream, and it polls again
        continue;
      }
      if (stopped) return;
      const seconds = BACKOFF_S[Math.min(failures - 1, BACKOFF_S.length - 1)];
      if (failures >= 2) told("lost", Date.now() + seconds * 1000);
      await pause(seconds * 1000);
    }
  }

  run();
  return {
    stop() {
      stopped = true;
      abort.abort();
      wake();
    },
    now() {
      wake();
    },
  };
}
