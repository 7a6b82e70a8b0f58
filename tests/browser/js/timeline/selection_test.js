import { close, equal, ok } from "/js/check.js";
import { Store } from "/static/js/timeline/data/store.js";
import { ancestorsOf, childrenOf, composition, flowOf, histogramOf, longestSpans, mediansOf, neighbourOf, sameName } from "/static/js/timeline/data/selection.js";
import { layersOfQuery, levelAbove, levelBelow, partsOfQuery, spansAround, startedInside } from "/static/js/timeline/data/kin.js";
import { hitAfter, hitsOf } from "/static/js/timeline/data/search.js";
import { hitColumns } from "/static/js/timeline/data/hit.js";
import { titleOf } from "/static/js/timeline/format.js";

const LANES = new Map([
  [0, { lane: 0, level: "layer", group: "host" }],
  [1, { lane: 1, level: "kernel", group: "device" }],
]);

/** predict around two convs; the second launches a kernel on lane 1. */
function traced() {
  const store = new Store();
  const [predict, conv, kernel] = ["predict", "conv", "gemm"].map((text) => store.nameOf(text));
  store.append({
    size: 4, lane: [0, 0, 0, 1], depth: [0, 1, 1, 0], start: [0, 10, 60, 70], duration: [100, 30, 35, 20],
    name: [predict, conv, conv, kernel], id: [1, 2, 3, 4], parent: [-1, 1, 1, 3], kind: [0, 0, 1, 2], correlation: [-1, -1, 7, 7],
  });
  return store;
}

const ids = (places) => places.map(({ row, span }) => row.id[span]);

export function test_ancestors_and_children_are_found_across_lanes() {
  const store = traced();
  equal(ids(ancestorsOf(store, store.locate(4))), [3, 1]);
  const { places, total } = childrenOf(store, store.locate(1));
  equal([ids(places), total], [[2, 3], 2]);
  equal(childrenOf(store, store.locate(4)).total, 0);
}

export function test_a_parent_that_is_its_own_ancestor_ends() {
  const store = new Store();
  store.append({ size: 1, lane: [0], depth: [0], start: [0], duration: [1], name: [store.nameOf("a")], id: [5], parent: [5] });
  ok(ancestorsOf(store, store.locate(5)).length <= 64);
}

export function test_a_launch_and_its_kernel_know_each_other() {
  const store = traced();
  equal(ids(flowOf(store, store.locate(3))), [4]);
  equal(ids(flowOf(store, store.locate(4))), [3]);
  equal(flowOf(store, store.locate(2)), []);
}

export function test_durations_of_one_name_are_summed_up() {
  const store = traced();
  const same = sameName(store, LANES, store.locate(3));
  equal([same.count, same.total, same.least, same.most, same.rank], [2, 65, 30, 35, 1]);
  equal(sameName(store, LANES, store.locate(2)).rank, 0.5);
}

export function test_each_span_has_the_median_of_its_name_and_level() {
  const store = traced();
  store.append({ size: 1, lane: [1], depth: [0], start: [200], duration: [999], name: [store.nameOf("conv")], id: [5], parent: [-1], kind: [2], correlation: [-1] });
  equal(mediansOf(store, LANES, [1, 2, 3].map((id) => store.locate(id))), [null, 35, 35]);
  equal(mediansOf(store, LANES, []), []);
}

export function test_a_histogram_counts_each_duration_once() {
  const sorted = Float64Array.from({ length: 1000 }, (_, at) => at);
  const { counts } = histogramOf(sorted);
  equal(counts.reduce((sum, number) => sum + number), 1000);
  equal(histogramOf(Float64Array.of(5, 5, 5)).counts, [3]);
}

export function test_the_next_of_a_name_is_the_next_in_time() {
  const store = traced();
  equal(ids([neighbourOf(store, LANES, store.locate(2), 1)]), [3]);
  equal(ids([neighbourOf(store, LANES, store.locate(3), -1)]), [2]);
  equal(neighbourOf(store, LANES, store.locate(3), 1), null);
}

export function test_a_range_is_made_of_what_lies_inside_it() {
  const parts = composition(traced(), LANES, 20, 80);
  const conv = parts.find((part) => part.name === 1);
  equal([conv.count, conv.busy], [2, 40]);
  close(parts.find((part) => part.name === 0).share, 1);
}

export function test_the_longest_spans_of_a_window_come_first() {
  const store = new Store();
  const size = 5000;
  const numbers = Array.from({ length: size }, (_, at) => at);
  store.append({ size, lane: numbers.map(() => 0), depth: numbers.map(() => 0), start: numbers.map((at) => at * 100), duration: numbers.map((at) => (at * 31) % 97), name: numbers.map(() => store.nameOf("s")), id: numbers });
  const window = { from: 100_000, to: 200_000 };
  const expected = numbers.filter((at) => at * 100 <= window.to && at * 100 + ((at * 31) % 97) >= window.from).map((at) => (at * 31) % 97).sort((a, b) => b - a).slice(0, 50);
  equal(longestSpans(store.rows.values(), window, 50).map(({ row, span }) => row.duration[span]), expected);
}

export function test_a_search_ignores_case_and_goes_round() {
  const store = traced();
  const hits = hitsOf(store, "CON");
  equal(hits.count, 2);
  equal(ids([hitAfter(hits, 10, 1)]), [3]);
  equal(ids([hitAfter(hits, 60, 1)]), [2]);
  equal(hitsOf(store, "  "), null);
}

export function test_hits_on_one_pixel_are_one() {
  const store = new Store();
  const numbers = Array.from({ length: 10_000 }, (_, at) => at);
  store.append({ size: 10_000, lane: numbers.map(() => 0), depth: numbers.map(() => 0), start: numbers, duration: numbers.map(() => 1), name: numbers.map(() => store.nameOf("s")) });
  const hits = Uint32Array.from(numbers);
  equal(hitColumns(store.row(0, 0), hits, { from: 0, to: 10_000 }, 100).length, 100);
}

/** A layer, a launch inside it without a recorded parent, and its kernel. */
function unlinked() {
  const store = new Store();
  store.append({
    size: 4, lane: [0, 2, 2, 1], depth: [0, 0, 0, 0], start: [0, 10, 200, 50], duration: [100, 5, 5, 80],
    name: [0, 1, 1, 2].map((at) => store.nameOf(["layer", "launch", "kernel"][at])), id: [1, 2, 3, 4], kind: [0, 1, 1, 2], correlation: [-1, 7, 8, 7],
  });
  const lanes = new Map([
    [0, { lane: 0, level: "layer", group: "host", thread: 5 }],
    [1, { lane: 1, level: "kernel", group: "device" }],
    [2, { lane: 2, level: "system", group: "host", thread: 5 }],
  ]);
  return { store, lanes };
}

export function test_spans_of_a_thread_stand_inside_each_other_without_parents() {
  const { store, lanes } = unlinked();
  equal(ids(spansAround(store, lanes, store.locate(2))), [1]);
  equal(ids(spansAround(store, lanes, store.locate(3))), []);
  equal(ids(spansAround(store, lanes, store.locate(4))), [2, 1]);
}

export function test_a_layer_knows_the_kernels_that_it_started() {
  const { store, lanes } = unlinked();
  equal(ids(startedInside(store, lanes, store.locate(1))), [4]);
  equal(startedInside(store, lanes, store.locate(4)), []);
}

export function test_a_query_of_the_load_has_what_the_host_did_for_it() {
  const store = new Store();
  const name = store.nameOf("s");
  store.append({ size: 4, lane: [0, 1, 1, 1], depth: [0, 0, 0, 1], start: [0, 5, 60, 6], duration: [100, 50, 30, 9], name: [name, name, name, name], id: [1, 2, 3, 4], query: [7, 7, 8, 7] });
  const lanes = new Map([[0, { lane: 0, level: "query", group: "load" }], [1, { lane: 1, level: "model", group: "host", thread: 1 }]]);
  equal(ids(partsOfQuery(store, lanes, store.locate(1))), [2]);
  equal(partsOfQuery(store, lanes, store.locate(2)), []);
  equal(ids(levelBelow(store, lanes, store.locate(1))), [2]);
  equal([levelAbove(store, lanes, store.locate(2)).span, levelAbove(store, lanes, store.locate(1))], [0, null]);
}

export function test_without_parents_the_levels_are_a_layer_its_launch_and_its_kernel() {
  const { store, lanes } = unlinked();
  equal(ids(levelBelow(store, lanes, store.locate(1))), [4]);
  equal(ids(levelBelow(store, lanes, store.locate(2))), [4]);
  equal(ids([levelAbove(store, lanes, store.locate(4)), levelAbove(store, lanes, store.locate(2))]), [2, 1]);
}

export function test_a_query_of_the_load_has_its_layers_the_longest_first() {
  const store = new Store();
  const name = store.nameOf("s");
  const query = [7, 7, 7, 8, 7, 7];
  store.append({ size: 6, lane: [0, 1, 1, 1, 1, 1], depth: [0, 0, 0, 0, 1, 0], start: [0, 5, 20, 40, 21, 60], duration: [100, 9, 15, 19, 3, 30], name: query.map(() => name), id: [1, 2, 3, 4, 5, 6], query, count: [1, 1, 1, 1, 1, 12] });
  const lanes = new Map([[0, { lane: 0, level: "query", group: "load" }], [1, { lane: 1, level: "layer", group: "host", thread: 1 }]]);
  equal(ids(layersOfQuery(store, lanes, store.locate(1))), [3, 2]);
  equal(layersOfQuery(store, lanes, store.locate(2)), []);
}

export function test_a_query_is_called_by_its_number() {
  const store = new Store();
  const names = ["answered", "failed", "queued", "answered"].map((text) => store.nameOf(text));
  const row = { name: names, kind: [7, 7, 7, 0], count: [1, 1, 1, 1], query: [84, 85, 84, -1] };
  const titles = names.map((_, span) => titleOf(store, { row, span }));
  equal(titles, ["query 84", "query 85, failed", "queued", "answered"]);
}
