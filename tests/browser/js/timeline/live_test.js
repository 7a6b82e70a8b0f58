import { equal, ok } from "/js/check.js";
import { seen, hidden } from "/js/sight.js";
import { places } from "/static/js/places.js";
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

places.locks = undefined; // streams open at once

/** Leave the page and come back to it: another connection. */
function again() {
  hidden();
  seen();
  Stream.all.at(-1).actions.open();
}

let before = null;

function feed() {
  before?.source.end(); // it would go on when the page is seen again
  globalThis.EventSource = Stream;
  Stream.all = [];
  const names = [], told = [];
  const note = (what) => (...data) => told.push([what, ...data]);
  const nameOf = (text) => (names.includes(text) ? names.indexOf(text) : names.push(text) - 1);
  const listeners = { onLanes: note("lanes"), onBatch: note("batch"), onGap: note("gap"), onEnd: note("end"), onRuns: note("runs") };
  const made = new LiveFeed("/api/evaluations/e/events", "r0", nameOf, listeners);
  made.open();
  before = made;
  Stream.all.at(-1).actions.open();
  return { made, names, told, stream: () => Stream.all.at(-1) };
}

const LANE = { lane: 0, key: "host/layer/1", group: "host", level: "layer", title: "layer" };
const spans = (sequence, rest = {}) => ({ run: "r0", attempt: 1, sequence, lane: [0], depth: [0], start: [10], duration: [5], name: [3], id: [1], parent: [-1], ...rest });

export function test_names_are_learnt_once_and_used_later() {
  const { names, told, stream } = feed();
  stream().tell("spans", spans(0, { names: { 3: "conv" } }));
  stream().tell("spans", spans(1));
  equal(names, ["conv"]);
  equal(told.map(([, batch]) => [...batch.name]), [[0], [0]]);
}

export function test_a_batch_that_comes_twice_counts_once() {
  const { made, told, stream } = feed();
  stream().tell("spans", spans(4, { names: { 3: "conv" } }));
  stream().tell("spans", spans(4));
  equal([made.received, made.repeated, told.length], [1, 1, 1]);
}

export function test_spans_of_other_runs_are_not_taken() {
  const { made, stream } = feed();
  stream().tell("spans", spans(1, { run: "r1" }));
  equal(made.received, 0);
}

export function test_lanes_keep_their_numbers_over_connections() {
  const { made, told, stream } = feed();
  stream().tell("spans", spans(1, { lanes: [LANE], names: { 3: "conv" } }));
  again();
  const kernels = { ...LANE, lane: 0, key: "device/0/7" };
  stream().tell("spans", spans(1, { lanes: [kernels, { ...LANE, lane: 1 }], lane: [1], names: { 3: "conv" } }));
  const batches = told.filter(([what]) => what === "batch").map(([, batch]) => batch);
  equal(batches.map((batch) => batch.lane), [[0], [0]]);
  equal(told.filter(([what]) => what === "lanes").at(-1)[1].map(({ lane, key }) => [lane, key]), [[0, "host/layer/1"], [1, "device/0/7"]]);
}

export function test_what_a_broken_connection_missed_is_a_gap() {
  const { made, told, stream } = feed();
  const introduction = (sequence) => stream().tell("spans", { run: "", attempt: 0, sequence, lanes: [], names: {}, lane: [], start: [], duration: [], name: [] });
  introduction(0);
  stream().tell("spans", spans(1, { names: { 3: "conv" } }));
  again();
  introduction(1);
  stream().tell("spans", spans(2, { start: [90] }));
  equal(told.filter(([what]) => what === "gap"), []);
  again();
  introduction(7);
  stream().tell("spans", spans(8, { start: [500] }));
  equal(told.filter(([what]) => what === "gap"), [["gap", { lane: null, from_ns: 95, to_ns: 500, count: 0 }]]);
}

export function test_what_is_dropped_is_counted_and_told() {
  const { made, told, stream } = feed();
  stream().tell("gap", { run: "r0", lane: null, from_ns: 5, to_ns: 9, count: 40 });
  equal([made.dropped, told[0][0]], [40, "gap"]);
  stream().tell("gap", { from: 3, to: 5 });
  equal(told.length, 1);
}

export function test_it_resumes_after_the_last_event() {
  const { made, stream } = feed();
  ok(!stream().url.includes("after"));
  stream().tell("state", { state: "running" }, "17");
  again();
  ok(stream().url.endsWith("?spans=1&after=17"));
}

export function test_states_of_runs_are_told_whether_one_changes_or_all_do() {
  const { told, stream } = feed();
  const runs = [{ run: "r0", state: "started" }];
  stream().tell("run", { state: "running", runs });
  stream().tell("state", { state: "cancelled", runs });
  stream().tell("state", { state: "measured" });
  equal(told, [["runs", runs], ["runs", runs]]);
}

export function test_an_end_closes_it_for_good() {
  const { made, told, stream } = feed();
  stream().tell("end", { state: "analyzed" });
  ok(stream().isClosed);
  made.open();
  hidden();
  seen();
  equal([Stream.all.length, told.at(-1)[0]], [1, "end"]);
}

export function test_columns_become_a_batch() {
  const batch = batchOf(spans(0), new Map([[3, 8]]), new Map([[0, 5]]));
  equal([batch.size, batch.name, batch.lane, batch.start], [1, [8], [5], [10]]);
}
