import { equal } from "/js/check.js";
import { spansOf, ticksOf, totalOf, typicalQuery } from "/static/js/mirrored.js";

const LANES = [
  { lane: 0, group: "load", level: "query" },
  { lane: 1, group: "host", level: "layer" },
  { lane: 2, group: "device", level: "kernel" },
  { lane: 3, group: "counter", level: "W" },
];

export function test_the_query_of_median_duration_is_typical() {
  equal(typicalQuery({ start: [0, 10, 30], duration: [9, 2, 5], query: [0, 1, 2] }), { from: 30, to: 35, query: 2 });
  equal(typicalQuery({ start: [], duration: [], query: [] }), null);
}

export function test_spans_of_the_query_start_at_its_start() {
  const columns = {
    lane: [0, 0, 1, 1, 2, 3], depth: [0, 0, 0, 1, 0, 0], start: [100, 150, 110, 112, 120, 111],
    duration: [60, 60, 20, 5, 30, 0], name: ["answered", "answered", "conv", "call", "gemm", "power"], query: [7, 8, 7, 7, -1, -1],
  };
  const spans = spansOf(columns, LANES, { from: 100, to: 160, query: 7 });
  equal(spans, [
    { level: 0, name: "answered", start: 0, duration: 60 },
    { level: 3, name: "gemm", start: 20, duration: 30 },
    { level: 2, name: "conv", start: 10, duration: 20 },
  ]);
  equal([totalOf(spans, 3, "gemm"), totalOf(spans, 3, "conv")], [30, 0]);
}

export function test_the_axis_has_round_times_or_percent() {
  equal(ticksOf(5.67e6, 600, false).map(([, text]) => text), ["0 ms", "2 ms", "4 ms"]);
  equal(ticksOf(5.67e6, 600, true).map(([, text]) => text), ["0%", "20%", "40%", "60%", "80%", "100%"]);
}
