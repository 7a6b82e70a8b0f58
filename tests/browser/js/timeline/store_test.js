import { close, equal, ok } from "/js/check.js";
import { longestIn, spanAt, visit } from "/static/js/timeline/data/hit.js";
import { Store } from "/static/js/timeline/data/store.js";

/** A batch of one lane from starts and durations. */
function batch(starts, durations, rest = {}) {
  return {
    size: starts.length, lane: Array.from(starts, () => 0), depth: Array.from(starts, () => 0), start: starts, duration: durations,
    name: Array.from(starts, () => 0), id: Array.from(starts, (_, at) => at), ...rest,
  };
}

/** A store with one row of so many spans of 60 ns, one each 100 ns. */
export function regular(size, rest = {}) {
  const store = new Store();
  store.nameOf("span");
  const numbers = Array.from({ length: size }, (_, at) => at);
  store.append(batch(numbers.map((at) => at * 100), numbers.map(() => 60), rest));
  return store;
}

export function test_spans_are_kept_by_lane_and_depth() {
  const store = new Store();
  store.append({ size: 4, lane: [1, 0, 1, 1], depth: [0, 0, 1, 0], start: [0, 5, 10, 20], duration: [9, 9, 9, 9], name: [0, 0, 0, 0] });
  equal(store.row(1, 0).size, 2);
  equal(store.row(1, 1).start.subarray(0, 1), [10]);
  equal(store.row(0, 0).size, 1);
  equal([store.start, store.end, store.spans], [0, 29, 4]);
  equal(store.rowsOf(1).map((row) => row.depth), [0, 1]);
}

export function test_missing_columns_have_their_defaults() {
  const row = regular(3, { id: undefined }).row(0, 0);
  equal([row.id[0], row.parent[0], row.query[0], row.correlation[0], row.count[0], row.busy[0]], [-1, -1, -1, -1, 1, 1]);
}

export function test_batches_out_of_order_are_merged_with_all_columns() {
  const store = new Store();
  store.append(batch([0, 100, 300, 400], [10, 10, 10, 10], { id: [1, 2, 4, 5], query: [1, 2, 4, 5] }));
  store.append(batch([350, 200], [10, 10], { id: [9, 3], query: [9, 3] }));
  const row = store.row(0, 0);
  equal(row.start.subarray(0, row.size), [0, 100, 200, 300, 350, 400]);
  equal(row.id.subarray(0, row.size), [1, 2, 3, 4, 9, 5]);
  equal(row.query.subarray(0, row.size), [1, 2, 3, 4, 9, 5]);
}

export function test_a_pyramid_grown_in_batches_equals_one_made_at_once() {
  const size = 3000;
  const starts = Array.from({ length: size }, (_, at) => at * 100 + ((at * 7919) % 50));
  const durations = starts.map((_, at) => 1 + ((at * 104729) % 45));
  const whole = new Store(), grown = new Store();
  whole.append(batch(starts, durations));
  for (let from = 0; from < size; from += 37) grown.append(batch(starts.slice(from, from + 37), durations.slice(from, from + 37)));
  const one = whole.row(0, 0).pyramid, other = grown.row(0, 0).pyramid;
  equal(one.levels.length, other.levels.length);
  one.levels.forEach((level, depth) => {
    const nodes = level.count;
    equal(nodes, other.levels[depth].count);
    for (const name of ["start", "end", "longest", "busy"]) equal(level[name].subarray(0, nodes), other.levels[depth][name].subarray(0, nodes), `${name} ${depth}`);
  });
  close(one.levels.at(-1).busy.subarray(0, one.levels.at(-1).count).reduce((a, b) => a + b), durations.reduce((a, b) => a + b), 1e-6);
}

export function test_an_id_is_found_and_no_other() {
  const store = regular(1000);
  equal(store.locate(777).span, 777);
  equal(store.locate(1000), null);
  equal(store.locate(-1), null);
}

export function test_a_name_has_one_number() {
  const store = new Store();
  equal([store.nameOf("a"), store.nameOf("b"), store.nameOf("a")], [0, 1, 0]);
}

export function test_the_span_under_a_time_is_found() {
  const row = regular(1000).row(0, 0);
  equal(spanAt(row, 50_030), 500);
  equal(spanAt(row, 50_080), -1);
  equal(spanAt(row, 50_080, 25), 500);
}

export function test_only_spans_of_a_stretch_are_visited() {
  const row = regular(1000).row(0, 0);
  const spans = [];
  visit(row, 10_050, 10_250, (span) => spans.push(span));
  equal(spans, [100, 101, 102]);
}

export function test_the_longest_of_a_stretch_is_found() {
  const store = regular(1000);
  const row = store.row(0, 0);
  row.duration[640] = 95;
  row.pyramid.rebuild(row, 640);
  equal(longestIn(row, 0, 100_000), 640);
  ok(longestIn(row, 0, 60_000) < 601);
  equal(longestIn(row, 64_099, 64_099), -1);
}

export function test_spans_are_counted_once_however_they_come() {
  const store = new Store();
  store.append(batch([0, 100, 300], [10, 10, 10], { count: [1, 5, 1] }));
  store.append(batch([50, 200], [10, 10], { count: [2, 1] }));
  equal([store.spans, store.size], [10, 5]);
}

export function test_sorted_columns_are_taken_without_a_copy() {
  const starts = Float64Array.of(0, 10, 20);
  const store = new Store();
  store.append(batch(starts, Float64Array.of(5, 5, 5), { lane: [0, 0, 1] }));
  ok(store.row(0, 0).start.buffer === starts.buffer);
  equal([store.row(0, 0).size, store.row(1, 0).start[0]], [2, 20]);
  store.append(batch([30], [5], { lane: [0] }));
  equal(store.row(0, 0).start.subarray(0, 3), [0, 10, 30]);
}
