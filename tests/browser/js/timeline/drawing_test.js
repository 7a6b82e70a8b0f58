import { equal, ok } from "/js/check.js";
import { drawCounter, extentOf, valueAt } from "/static/js/timeline/drawing/counters.js";
import { Painter, mixed, sampled } from "/static/js/timeline/drawing/paint.js";
import { blockAt, blockOf, inOrder, layoutOf, topOf } from "/static/js/timeline/drawing/layout.js";
import { Marks } from "/static/js/timeline/drawing/marks.js";
import { Palette, lightness, packed, packedStyle } from "/static/js/timeline/drawing/palette.js";
import { Store } from "/static/js/timeline/data/store.js";

const PAPER = 0xffffffff;
const BLUE = 0xffff0000;

function rowOf(starts, durations, rest = {}) {
  const store = new Store();
  store.append({ size: starts.length, lane: starts.map(() => 0), depth: starts.map(() => 0), start: starts, duration: durations, name: starts.map(() => 0), ...rest });
  return store.row(0, 0);
}

function painted(row, window, width, label = 1000) {
  const painter = new Painter(new Uint32Array(width), width, PAPER);
  painter.paint(row, window, Uint32Array.of(BLUE), 0, label);
  return painter;
}

export function test_a_wide_span_fills_its_pixels_but_the_last() {
  const { pixels } = painted(rowOf([10], [20]), { from: 0, to: 100 }, 100);
  equal([pixels[9], pixels[10], pixels[28], pixels[29], pixels[30]], [0, BLUE, BLUE, 0, 0]);
}

export function test_a_tiny_span_is_seen() {
  const { pixels } = painted(rowOf([5000], [1]), { from: 0, to: 10_000 }, 100);
  ok(pixels[50] !== 0 && pixels[50] !== PAPER);
  equal(pixels.filter((pixel) => pixel !== 0).length, 1);
}

export function test_a_busy_pixel_is_stronger_than_an_idle_one() {
  const row = rowOf([0, 10, 20, 1000], [10, 10, 10, 1]);
  const { pixels } = painted(row, { from: 0, to: 10_000 }, 100);
  ok(lightness(pixels[0]) < lightness(pixels[10]));
}

export function test_a_million_spans_cost_what_is_on_the_screen() {
  const size = 1_000_000;
  const numbers = new Float64Array(size).map((_, at) => at * 10);
  const row = rowOf(Array.from(numbers), Array.from({ length: size }, () => 9));
  const far = painted(row, { from: 0, to: size * 10 }, 1000);
  const near = painted(row, { from: 5_000_000, to: 5_001_000 }, 1000);
  equal(far.pixels.filter((pixel) => pixel === 0).length, 0);
  ok(far.steps < 30_000, far.steps);
  ok(near.steps < 3_000, near.steps);
}

export function test_wide_spans_are_kept_for_their_labels() {
  const { wide } = painted(rowOf([-50, 200], [100, 500]), { from: 0, to: 1000 }, 1000, 40);
  equal(wide.size, 2);
  equal(wide.data.subarray(0, 8), [0, 0, 0, 50, 0, 1, 200, 700]);
}

export function test_spans_beyond_the_window_are_not_painted() {
  const { pixels } = painted(rowOf([-100, 2000], [50, 50]), { from: 0, to: 1000 }, 100);
  equal(pixels.filter((pixel) => pixel !== 0).length, 0);
}

export function test_colours_mix_towards_the_paper() {
  equal(mixed(0xff000000, 0xffffffff, 0).toString(16), "ffffffff");
  equal(mixed(0xff204060, 0xffffffff, 1), 0xff204060);
  equal(packed("#102030"), 0xff302010);
  equal(packedStyle("rgb(16, 32, 48)"), 0xff302010);
}

export function test_a_search_dims_what_it_does_not_name() {
  const palette = new Palette();
  palette.learn(["conv", "relu"]);
  palette.dim(Uint8Array.of(1, 0), 0xffffffff);
  equal(palette.shown[0], palette.colours[0]);
  ok(lightness(palette.shown[1]) > lightness(palette.colours[1]));
}

export function test_a_counter_has_its_least_and_greatest_value_in_a_pixel() {
  const row = rowOf([0, 5, 10, 100], [0, 0, 0, 0], { value: [3, 9, 1, 4] });
  const { low, high } = sampled(row, { from: 0, to: 200 }, 10);
  equal([low[0], high[0], low[5], high[5]], [1, 9, 4, 4]);
  ok(Number.isNaN(low[1]));
  equal(sampled(row, { from: 50, to: 90 }, 10).before, 1);
}

const LANES = [
  { lane: 0, key: "load/query", group: "load", level: "query", title: "queries", depth_max: 0, spans: 1 },
  { lane: 1, key: "host/layer/1", group: "host", level: "layer", title: "layer", depth_max: 3, spans: 1 },
  { lane: 2, key: "device/0/7", group: "device", level: "kernel", title: "stream 7", device: 0, depth_max: 0, spans: 1 },
  { lane: 3, key: "device/1/7", group: "device", level: "kernel", title: "stream 7", device: 1, depth_max: 0, spans: 1 },
];
const folding = (folded = [], pinned = []) => ({ folded: new Set(folded), pinned: new Set(pinned) });

export function test_each_device_has_a_group() {
  const { blocks } = layoutOf(LANES, folding());
  equal(blocks.filter((block) => block.kind === "group").map((block) => block.title), ["Load", "Host", "Device 0", "Device 1"]);
}

export function test_blocks_stand_below_each_other() {
  const { blocks, height } = layoutOf(LANES, folding());
  let y = 0;
  for (const block of blocks) {
    equal(block.y, y);
    y += block.height;
  }
  equal(height, y);
}

export function test_folded_lanes_are_low_and_folded_groups_hide_theirs() {
  const open = layoutOf(LANES, folding()), folded = layoutOf(LANES, folding(["host/layer/1", "device 1"]));
  ok(blockOf(folded, 1).height < blockOf(open, 1).height);
  equal(blockOf(folded, 3), null);
}

export function test_pinned_lanes_stand_first_and_do_not_scroll() {
  const layout = layoutOf(LANES, folding([], ["device/0/7"]));
  equal(layout.blocks[0].key, "device/0/7");
  equal(topOf(layout.blocks[0], 500), 0);
  equal(blockAt(layout, 5, 500).block.key, "device/0/7");
  ok(!layout.blocks.some((block) => block.title === "Device 0"));
}

export function test_a_line_is_found_by_its_depth() {
  const layout = layoutOf(LANES, folding());
  const block = blockOf(layout, 1);
  equal(blockAt(layout, block.lines[2].y + 5, 0).line.depth, 2);
  equal(blockAt(layout, layout.height + 5, 0), null);
}

export function test_live_lanes_stand_as_stored_ones() {
  const mixed = [LANES[3], LANES[1], LANES[2], LANES[0]];
  equal(inOrder(mixed).map(({ key }) => key), LANES.map(({ key }) => key));
}

export function test_rows_are_higher_where_there_is_room() {
  const least = layoutOf(LANES, folding()), roomy = layoutOf(LANES, folding(), least.height + 100);
  ok(roomy.height > least.height && roomy.height <= least.height + 100, `${roomy.height}`);
  equal(layoutOf(LANES, folding(), least.height - 50).height, least.height);
}

export function test_a_counter_has_the_value_of_the_last_sample_before_a_time() {
  const row = rowOf([10, 20, 30], [0, 0, 0], { value: new Float64Array([5, -2, 7]) });
  equal([5, 10, 19, 20, 99].map((time) => valueAt(row, time)), [null, 5, 5, -2, 7]);
  equal(extentOf(row), { least: -2, most: 7 });
}

export function test_a_counter_with_a_single_sample_at_the_end_is_a_point() {
  const canvas = Object.assign(document.createElement("canvas"), { width: 100, height: 40 });
  const context = canvas.getContext("2d");
  const row = rowOf([50], [0], { value: new Float64Array([7]) });
  const scene = { window: { from: 0, to: 100 }, store: { end: 50 }, theme: { accent: "#00f" }, pointer: null };
  const line = { row, y: 0, height: 19, block: { lane: { level: "1" } } };
  drawCounter(context, new Marks(context), scene, line, 100);
  const isInked = (x, width) => context.getImageData(x, 0, width, 40).data.some((part) => part > 0);
  equal([isInked(48, 4), isInked(0, 40), isInked(60, 40)], [true, false, false]);
}

export function test_a_time_is_on_the_axis_whole_or_not_at_all() {
  const canvas = Object.assign(document.createElement("canvas"), { width: 340, height: 30 });
  const context = canvas.getContext("2d");
  const marks = new Marks(context);
  const theme = { card: "#fff", line: "#fff", paper: "#fff", soft: "#000" };
  marks.begin({ window: { from: 0, to: 309 }, theme, pointer: null, now: null }, 340, 30);
  marks.axis(30);
  const isInked = (x, width) => context.getImageData(x, 0, width, 30).data.some((part) => part < 255);
  equal(marks.axisTicks.times, [0, 100, 200, 300]);
  equal([isInked(221, 60), isInked(331, 9)], [true, false]);
}
