// A worker in JavaScript: node worker.js host:port[,host:port]
// All that it relies on stands in the comments of proto/tenuto/worker/v1/worker.proto.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";
import { tasks } from "./tasks.js";

const proto = process.env.TENUTO_PROTO ??
  fileURLToPath(new URL("../../proto/tenuto/worker/v1/worker.proto", import.meta.url));
const { Workers } = grpc.loadPackageDefinition(
  loader.loadSync(proto, { keepCase: true, longs: Number, enums: String, arrays: true })).tenuto.worker.v1;
const pings = { "grpc.keepalive_time_ms": 3_000, "grpc.keepalive_timeout_ms": 2_500,
  "grpc.keepalive_permit_without_calls": 1, "grpc.max_receive_message_length": 8 << 20 };

const servers = (process.argv[2] ?? "127.0.0.1:50051").split(",");
const worker = { protocol: 1, worker: `js-${randomUUID().slice(0, 8)}`, queues: ["default"],
  names: Object.keys(tasks), capacity: 10, version: "worker_js 1" };
const held = new Map(); // lease id -> { task, until, stopper, alive }: every lease that we have
const read = new Set(); // notes of servers that were printed
const open = new Map(); // call number -> { message, sent, resolve, reject }: what has no answer yet
let stream = null;      // set from `welcome` until it breaks or drains
let said = "", number = 1, leaseUs = 10_000_000, pause = 50, stopping = false;

const now = () => performance.now() * 1_000; // microseconds on a clock that only goes forward
const beat = ({ task, alive = false }) =>
  ({ run_id: task.run_id, place: task.place, lease_id: task.lease_id, alive });

// ---- the stream: one at a time; what was not answered on one is said again on the next

function ask(message) {
  return new Promise((resolve, reject) => {
    open.set(++number, { message, sent: now(), resolve, reject });
    stream?.write({ call: number, ...message });
  });
}

function connect() {
  servers.push(servers.shift()); // another one, each time
  const metadata = new grpc.Metadata();
  if (process.env.TENUTO_TOKEN) metadata.set("authorization", `Bearer ${process.env.TENUTO_TOKEN}`);
  const client = new Workers(servers[0], grpc.credentials.createInsecure(), pings);
  const mine = client.Work(metadata);
  let over = false;
  const end = (why) => {
    if (over) return;
    [over, stream] = [true, null];
    client.close();
    if (why !== said) console.error(`${servers[0]}: ${why}; trying again`); // once, however long it lasts
    said = why;
    for (const [call, { message, resolve }] of open) // but a lease is asked for anew
      if (message.lease) open.delete(call), resolve({});
    setTimeout(connect, pause * (0.5 + Math.random() / 2));
    pause = Math.min(pause * 2, 5_000);
  };
  mine.on("error", (error) => end(error.details || error.message)).on("end", () => end("the stream has ended"));
  mine.on("data", (message) => {
    const call = open.get(message.call);
    if (message.welcome) {
      console.error(`${servers[0]}: connected, tenuto ${message.welcome.version}`);
      for (const note of message.welcome.notes) // what whoever started this worker should know, once
        if (!read.has(note)) read.add(note), console.error(`${servers[0]}: ${note}`);
      [stream, pause, leaseUs, said] = [mine, 50, message.welcome.lease_us, ""];
      for (const [call, { message }] of open) stream.write({ call, ...message });
    } else if (message.drain) { // the server wants us elsewhere: answers still come, then we go
      stream = null;
      for (const [call, { message }] of open) if (message.lease) mine.write({ call, cancel: {} });
      setTimeout(() => mine.end(), 500);
    } else {
      const leased = message.part ?? message.leases ?? message.reported;
      for (const task of leased?.tasks ?? []) work(task, call.sent + task.lease_us);
      if (message.part) return;
      open.delete(message.call);
      message.failed ? call.reject(new Error(message.failed.message)) : call.resolve(message);
    }
  });
  mine.write({ call: 1, register: { ...worker, held: [...held.values()].map(beat) } });
}

// ---- leases

async function lease() {
  while (!stopping)
    if (!stream || held.size >= worker.capacity) await sleep(10);
    else await ask({ lease: { free: worker.capacity - held.size } }).catch(() => sleep(1_000));
}

async function extend() {
  for (;;) {
    await sleep(leaseUs / 3_000);
    const [sent, entries] = [now(), [...held.values()]];
    if (!stream) continue;
    const beats = entries.map(beat);
    for (const entry of entries) entry.alive = false;
    ask({ heartbeat: { beats, busy: held.size, capacity: worker.capacity } }).then(({ verdicts }) =>
      verdicts.verdicts.forEach((verdict, i) =>
        verdict === "VERDICT_OK" ? guard(entries[i], sent + leaseUs) : drop(entries[i])), () => {});
  }
}

function guard(entry, until) { // a lease, and the time of an attempt, end here before they can end there
  clearTimeout(entry.fence);
  entry.fence = setTimeout(drop, (Math.min(until, entry.ends) - now()) / 1_000, entry);
}

function drop(entry) {
  clearTimeout(entry.fence);
  held.delete(entry.task.lease_id);
  entry.stopper.abort();
}

// ---- work

async function work(task, until) {
  const { run_id, place, lease_id, attempt } = task;
  const entry = { task, stopper: new AbortController(), alive: false,
    ends: now() + (task.attempt_us ?? Infinity) };
  held.set(lease_id, entry);
  guard(entry, until);
  const context = { key: `${run_id}/${place}`, attempt, signal: entry.stopper.signal,
    heartbeat: () => { entry.alive = true; } };
  const result = await (async () => tasks[task.name](JSON.parse(task.input), context))().then(
    (output) => ({ output: JSON.stringify(output ?? null) }),
    (error) => ({ failure: { code: error.code ?? "task_error", message: String(error.message ?? error),
      classes: [error.name ?? "Error"], permanent: error.permanent ?? false } }));
  while (held.has(lease_id)) // until there is a verdict, or the lease is over
    await ask({ report: { results: [{ run_id, place, lease_id, attempt, ...result }] } })
      .then(() => drop(entry), () => sleep(1_000));
}

async function stop() {
  stopping = true;
  for (let i = 0; held.size && i < 100; i++) await sleep(100); // 10 s for what is under way
  const rest = [...held.values()];
  rest.forEach(drop);
  if (rest.length) await Promise.race([ask({ release: { beats: rest.map(beat) } }), sleep(2_000)]);
  for (const [call, { message }] of open) if (message.lease) stream?.write({ call, cancel: {} });
  await Promise.race([ask({ leave: {} }), sleep(2_000)]);
  process.exit(0);
}

process.once("SIGTERM", stop).once("SIGINT", stop);
connect(), lease(), extend();
