// An agent in JavaScript: node agent.mjs NATS_URL SEED_FILE
import { createHash, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { cpus, hostname, totalmem } from "node:os";
import { setImmediate as nextTurn } from "node:timers/promises";
import { decode, encode } from "@msgpack/msgpack";
import { connect, headers, nkeyAuthenticator } from "@nats-io/transport-node";

const NAME = "javascript", VERSION = "1.0.0", HEARTBEAT_MS = 1000;
const INCARNATION = randomUUID().replaceAll("-", ""); // this start of the agent
const [servers, seedFile] = process.argv.slice(2);
const seed = new TextEncoder().encode(readFileSync(seedFile, "ascii").trim());
const bus = await connect({
  servers,
  authenticator: nkeyAuthenticator(seed),
  inboxPrefix: `_INBOX_agent.${NAME}`, // where the key may receive answers
});
const now = () => process.hrtime.bigint(); // CLOCK_MONOTONIC in ns
const epoch = () => BigInt(Date.now()) * 1_000_000n;

// Stores a message in the log and waits until it is stored; a repeated id is stored once.
async function store(subject, body, id) {
  const withId = headers();
  withId.set("Nats-Msg-Id", id);
  const answer = await bus.request(subject, body, { headers: withId, timeout: 10_000 });
  const { error } = answer.json();
  if (error) throw new Error(`${subject}: ${error.description}`);
}

// Publishes a fact: mlscope.v1.ENTITY.EVALUATION.RUN.HAPPENED.AGENT, in an envelope.
async function publish(entity, happened, data) {
  const run = data.run ? [data.evaluation, data.run, happened, NAME] : [NAME, happened];
  const subject = ["mlscope.v1", entity, ...run].join(".");
  const cause = [INCARNATION, subject, data.attempt, data.sequence].join(" ");
  const id = createHash("sha256").update(cause).digest("hex").slice(0, 32);
  const schema = `${entity}.${happened}`;
  const envelope = { schema, version: 1, id, cause: "", time_ns: epoch(), data };
  await store(subject, encode(envelope, { useBigInt64: true }), id);
}

// The runs that were accepted and have not ended, and why some of them are to be stopped.
const accepted = new Set(), busy = new Set(), stops = new Map();
const nameOf = ({ evaluation, attempt }, run) => `${evaluation}/${run}/${attempt}`;

// A closed loop: the next query begins when the one before has ended. The model is the mean.
async function measured(run, size, { model, blocks }, name) {
  const length = model.inputs[0].shape.slice(1).reduce((a, b) => a * b, 1);
  const sample = () => Float32Array.from({ length }, Math.random);
  const batch = Array.from({ length: size }, sample);
  const predict = () => batch.map((numbers) => numbers.reduce((a, b) => a + b) / length);
  for (let warm = 0; warm < 3; warm++) predict();
  const rows = [];
  for (let block = 0; block < blocks.least; block++) {
    await nextTurn(); // between blocks the lease is renewed, and commands are answered
    if (stops.has(name)) throw Object.assign(new Error(stops.get(name)), { kind: "stopped" });
    for (let count = 0; count < run.queries; count++) {
      const start = now();
      predict();
      rows.push({ query: rows.length, block, start, end: now() });
    }
  }
  return rows;
}

async function perform(order, run) {
  const { evaluation, attempt } = order, size = order.session.batch_size;
  const own = { evaluation, run: run.run, attempt, agent: NAME };
  if (run.pacing !== "local" || run.scenario !== "online") {
    throw new Error(`${run.scenario} (${run.pacing}): this agent paces the scenario online alone`);
  }
  const origin = now(), began = epoch();
  const rows = await measured(run, size, order.subject, nameOf(order, run.run));
  // A column is the little-endian bytes of one number for each row; times count from the origin.
  const column = (Type, value) => new Uint8Array(Type.from(rows, value).buffer);
  const columns = {
    query: column(Int32Array, (row) => row.query),
    block: column(Int16Array, (row) => row.block),
  };
  const starts = column(BigInt64Array, (row) => row.start - origin);
  const lengths = column(BigInt64Array, (row) => row.end - row.start);
  const none = column(BigInt64Array, () => -1n);
  await publish("query", "answered", {
    ...own, ...columns, sequence: 0, count: rows.length,
    size: column(Int32Array, () => size), status: column(Int8Array, () => 0),
    due_ns: none, issued_ns: starts, started_ns: starts, service_ns: lengths,
    ended_ns: column(BigInt64Array, (row) => row.end - origin),
  });
  const isTraced = !["none", "application"].includes(run.level);
  if (isTraced) {
    await publish("trace", "captured", {
      ...own, ...columns, sequence: 0, count: rows.length,
      name_ids: [0], name_texts: ["predict"], name: column(Int32Array, () => 0),
      span: column(BigInt64Array, (row) => BigInt(row.query + 1)), parent: none,
      level: column(Int8Array, () => 2), thread: column(Int32Array, () => 0),
      start_ns: starts, duration_ns: lengths,
    });
  }
  // The tally announces how many batches and rows there are: when all are stored, the run is.
  await publish("run", "completed", {
    ...own, level: isTraced ? "model" : "none",
    tally: {
      query_batches: 1, queries: rows.length,
      trace_batches: isTraced ? 1 : 0, spans: isTraced ? rows.length : 0,
    },
    origin: {
      monotonic_ns: origin, monotonic_end_ns: now(), epoch_start_ns: began, epoch_end_ns: epoch(),
      boot_id: readFileSync("/proc/sys/kernel/random/boot_id", "ascii").trim(),
    },
    conditions: {
      framework: NAME, framework_version: VERSION, processor: cpus()[0].model, threads: 1,
    },
  });
}

const report = (error) => console.error(error);

// The lease says that the agent lives, and which runs it works on.
function renew() {
  const lease = { holder: NAME, incarnation: INCARNATION, hostname: hostname(), busy: [...busy] };
  return store(`$KV.leases.agent-${NAME}`, JSON.stringify(lease), randomUUID());
}

// However a run ends, a fact says so, and the lease no longer names it.
async function work(order, run) {
  const name = nameOf(order, run.run), { evaluation, attempt } = order;
  try {
    await renew();
    await perform(order, run);
  } catch (error) {
    const own = { evaluation, run: run.run, attempt, agent: NAME };
    const failure = { error: error.kind ?? "predict", message: error.message };
    await publish("run", "failed", { ...own, ...failure });
  } finally {
    busy.delete(name);
    stops.delete(name);
    renew().catch(report);
  }
}

// Commands: an order is accepted at once, and its runs are measured afterwards, one by one.
let working = Promise.resolve();
const commands = {
  start(order) {
    for (const run of order.session.runs.filter(({ run }) => order.runs.includes(run))) {
      const name = nameOf(order, run.run);
      if (accepted.has(name)) continue; // the same order again changes nothing
      accepted.add(name);
      busy.add(name);
      working = working.then(() => work(order, run)).catch(report);
    }
  },
  stop(attempt) {
    const name = nameOf(attempt, attempt.run);
    if (!busy.has(name)) return "no such run is waiting or running";
    stops.set(name, attempt.reason || "stopped on request");
  },
  close() {}, // no session stays open after its runs
  query: () => "this agent takes no queries",
  finish: () => "this agent takes no queries",
};
bus.subscribe(`mlscope.v1.request.agent.${NAME}.*`, {
  callback: (_, command) => {
    let refusal;
    try {
      refusal = commands[command.subject.split(".").at(-1)]?.(decode(command.data)) ?? "";
    } catch (error) {
      refusal = `malformed: ${error.message}`;
    }
    const answer = { accepted: !refusal, error: refusal && "unknown", message: refusal };
    command.respond(encode(answer));
  },
});

await renew();
setInterval(() => renew().catch(report), HEARTBEAT_MS);
const architecture = { x64: "amd64" }[process.arch] ?? process.arch;
await publish("agent", "announced", {
  agent: NAME,
  announcement: {
    agent: NAME, incarnation: INCARNATION,
    hardware: {
      hostname: hostname(), architecture, cpu_model: cpus()[0].model, cores: cpus().length,
      memory_bytes: totalmem(),
    },
    runtimes: [
      { framework: NAME, version: VERSION, devices: ["cpu"], deepest_level: "model" },
    ],
  },
});
console.log(`agent ${NAME} is announced`);

async function leave() {
  await publish("agent", "left", { agent: NAME, incarnation: INCARNATION });
  process.exit(0);
}
process.on("SIGTERM", leave).on("SIGINT", leave);
