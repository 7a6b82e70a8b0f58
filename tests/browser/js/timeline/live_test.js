import { equal, ok } from "/js/check.js";
import { LiveFeed, batchOf } from "/static/js/timeline/data/live.js";

/** A stream that a test speaks for. */
class Stream {
  static all = [];
  constructor(url) {
    this.url = url;
    this.actions = {};
    Stream.all.push(this);
  }
  addEventListener(name, action) {
    this.actions[name] = action;
  }
  tell(name, data, lastEventId = "") {
    this.actions[name]({ data: JSON.stringify(data), lastEventId });
  }
  close() {
    this.isClosed = true;
  }
}

function feed() {
  globalThis.EventSource = Stream;
  Stream.all = [];
  const names = [], told = [];
  const note = (what) => (...data) => told.push([what, ...data]);
  const nameOf = (text) => (names.includes(text) ? names.indexOf(text) : names.push(text) - 1);
  const listeners = { onLanes: note("lanes"), onBatch: note("batch"), onGap: note("gap"), onState: note("state"), onEnd: note("end") };
  const made = new LiveFeed("/api/evaluations/e/events", nameOf, listeners);
  made.open();
  return { made, names, told, stream: () => Stream.all.at(-1) };
}

const spans = (sequence, rest = {}) => ({ run: "r0", attempt: 1, sequence, lane: [0], depth: [0], start: [10], duration: [5], name: [3], id: [1], parent: [-1], ...rest });

export function test_names_are_learnt_once_and_used_later() {
  const { names, told, stream } = feed();
  stream().tell("spans", spans(0, { names: { 3: "conv" } }));
  stream().tell("spans", spans(1));
  equal(names, ["conv"]);
  equal(told.map(([, , batch]) => [...batch.name]), [[0], [0]]);
}

export function test_a_batch_that_comes_twice_counts_once() {
  const { made, told, stream } = feed();
  stream().tell("spans", spans(4, { names: { 3: "conv" } }));
  stream().tell("spans", spans(4));
  equal([made.received, made.repeated, told.length], [1, 1, 1]);
  stream().tell("spans", spans(0, { attempt: 2 }));
  equal(made.received, 2);
}

export function test_what_is_dropped_is_counted_and_told() {
  const { made, told, stream } = feed();
  stream().tell("gap", { lane: 2, from_ns: 5, to_ns: 9, count: 40 });
  equal([made.dropped, told[0][0]], [40, "gap"]);
  stream().tell("gap", { from: 3, to: 5 });
  equal(told.length, 1);
}

export function test_it_resumes_after_the_last_event() {
  const { made, stream } = feed();
  ok(!stream().url.includes("after"));
  stream().tell("state", { state: "running" }, "17");
  made.close();
  made.open();
  ok(stream().url.endsWith("?spans=1&after=17"));
}

export function test_an_end_closes_it_for_good() {
  const { made, told, stream } = feed();
  stream().tell("end", { state: "analyzed" });
  ok(stream().isClosed);
  made.open();
  equal([Stream.all.length, told.at(-1)[0]], [1, "end"]);
}

export function test_columns_become_a_batch() {
  const batch = batchOf(spans(0, { names: { 3: "x" } }), new Map(), () => 8);
  equal([batch.size, [...batch.name], batch.start], [1, [8], [10]]);
}
