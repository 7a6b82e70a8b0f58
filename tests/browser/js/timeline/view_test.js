import { close, equal, ok } from "/js/check.js";
import { count, duration, instant, percent, quantity, shortened, startOf } from "/static/js/timeline/format.js";
import { BINDINGS, actionOf, showHelp } from "/static/js/timeline/keys.js";
import { commandsOf } from "/static/js/timeline/commands.js";
import { queryOf, timeOf, timeText, viewOf } from "/static/js/timeline/permalink.js";
import { LEAST_NS, approached, clamped, fitted, panned, revealed, roundStep, ticks, timeAt, zoomed } from "/static/js/timeline/view.js";

const LIMITS = { from: 0, to: 1e9 };

export function test_a_zoom_keeps_the_time_under_the_pointer() {
  const before = { from: 2e8, to: 4e8 };
  const at = timeAt(before, 300, 1000);
  const after = zoomed(before, LIMITS, at, 0.25);
  close(timeAt(after, 300, 1000), at, 1e-3);
  close(after.to - after.from, 5e7, 1e-3);
}

export function test_a_window_stays_inside_its_limits() {
  equal(panned({ from: 8e8, to: 9e8 }, LIMITS, 5e8), { from: 9e8, to: 1e9 });
  equal(zoomed({ from: 1e8, to: 9e8 }, LIMITS, 5e8, 10), LIMITS);
  close(clamped({ from: 5, to: 5 }, LIMITS).to - clamped({ from: 5, to: 5 }, LIMITS).from, LEAST_NS);
  equal(clamped({ from: 0, to: 10 }, { from: 0, to: 0 }), { from: 0, to: LEAST_NS });
}

export function test_a_fitted_span_has_a_margin() {
  const { from, to } = fitted(1e8, 2e8, LIMITS);
  ok(from < 1e8 && to > 2e8 && to - from < 1.5e8);
}

export function test_what_is_seen_already_moves_nothing() {
  const window = { from: 0, to: 1e8 };
  ok(revealed(window, 1e7, 2e7, LIMITS) === window);
  ok(revealed(window, 5e8, 5.1e8, LIMITS).from > 4e8);
  const tiny = revealed(LIMITS, 5e8, 5e8 + 100, LIMITS);
  ok(tiny.to - tiny.from < 1000);
}

export function test_a_movement_ends() {
  let window = { from: 0, to: 1e9 };
  const goal = { from: 4e8, to: 5e8 };
  let frames = 0;
  while (window !== goal && frames < 100) {
    window = approached(window, goal);
    frames += 1;
  }
  ok(frames < 30, frames);
}

export function test_ticks_are_round_and_inside() {
  const { step, times } = ticks({ from: 123, to: 45_678 }, 1000);
  equal(step, 10_000);
  equal(times, [10_000, 20_000, 30_000, 40_000]);
  equal([roundStep(3), roundStep(50), roundStep(51)], [5, 50, 100]);
}

export function test_times_are_read_with_three_digits() {
  equal([duration(1_840_000), duration(999), duration(12.34), duration(2.5e9), duration(1e13)], ["1.84 ms", "999 ns", "12.3 ns", "2.5 s", "10000 s"]);
  equal([instant(2.5e6, 1e5), instant(0, 1e7), instant(1_234_500, 100)], ["2.5 ms", "0 ms", "1.2345 ms"]);
  equal([count(1234567), count(12), percent(0.1234), percent(0.0123)], ["1,234,567", "12", "12.3%", "1.2%"]);
}

export function test_quantities_are_those_of_the_tables() {
  const shown = (...pairs) => pairs.map(([value, unit]) => quantity(value, unit));
  equal(shown([1143787520, "By"], [0.0248, "s"], [999_700, "ns"], [-1500, "ns"]), ["1.14 GB", "24.8 ms", "1 ms", "-1.5 µs"]);
  equal(shown([21, "1"], [0.5, "1"], [216.6, "1"], [5702.3, "1/s"], [123456.7, "1/s"]), ["21", "0.5", "217", "5702 /s", "123457 /s"]);
  equal(shown([300, "W"], [1980, "MHz"], [9.802, "FLOP/By"], [53908557533, "FLOP/s"]), ["300 W", "1980 MHz", "9.8 FLOP/B", "53.9 GFLOP/s"]);
  equal(shown([0.12345, "share"], [-0.0001, "share"], [0.5, "USD"], [NaN, "ns"]), ["12.3%", "0.0%", "$0.5", "–"]);
}

export function test_long_names_are_cut_in_the_middle_between_letters() {
  equal([...shortened("a".repeat(10_000), 20)].length, 20);
  equal(shortened("short", 20), "short");
  ok(!shortened("😀".repeat(100), 11).includes("\ufffd"));
  equal([...shortened("😀".repeat(100), 11)].filter((letter) => letter !== "😀"), ["…"]);
}

export function test_a_view_survives_its_address() {
  const view = { window: { from: 12_310_001, to: 14_020_000 }, selected: 81723, query: null, search: "gemm ü", pinned: ["device/0/7", "load/query"], folded: ["host/system/1"] };
  equal(viewOf(queryOf(view, "?run=r0")), view);
  ok(queryOf(view, "?run=r0").startsWith("?run=r0&t=12.310001ms,14.02ms&sel=81723&"));
  const none = { window: null, selected: null, query: null, search: "", pinned: [], folded: null };
  equal(queryOf(none, "?run=r0&t=1,2&query=7"), "?run=r0");
  equal(viewOf("?run=r0&query=17").query, 17);
  equal(queryOf({ ...none, query: 17 }, "?run=r0"), "?run=r0&query=17");
}

export function test_an_address_without_sense_shows_all() {
  equal(viewOf("?t=5ms,1ms&sel=abc&query=-1"), { window: null, selected: null, query: null, search: "", pinned: [], folded: null });
  equal([timeOf("1.5us"), timeOf("7"), timeOf("x"), timeText(0), timeText(999)], [1500, 7, NaN, "0ns", "999ns"]);
}

export function test_every_key_has_a_command_and_every_command_a_key() {
  const commands = Object.keys(commandsOf({ view: {} }));
  for (const { action } of BINDINGS) ok(commands.includes(action), action);
  for (const command of commands) ok(BINDINGS.some(({ action }) => action === command), command);
  const keys = BINDINGS.flatMap((binding) => binding.keys);
  equal(new Set(keys).size, keys.length);
}

export function test_keys_do_nothing_while_typing_or_with_modifiers() {
  const target = document.createElement("div"), input = document.createElement("input"), button = document.createElement("button");
  const press = (key, rest = {}) => actionOf({ key, target, ...rest }, true);
  equal([press("w"), press("w", { target: input }), press("w", { ctrlKey: true }), press("q")], ["zoomIn", null, null, null]);
  equal([press("Enter"), press("Enter", { target: button })], ["child", null]);
  equal([actionOf({ key: "ArrowUp", target }, false), actionOf({ key: "w", target }, false)], [null, "zoomIn"]);
}

export function test_the_help_is_made_of_the_table() {
  const list = document.createElement("dl");
  showHelp(list);
  equal(list.querySelectorAll("dt").length, BINDINGS.length);
  equal(list.querySelector("kbd").textContent, BINDINGS[0].shown);
}

export function test_a_start_is_said_to_a_tenth_of_the_duration() {
  const row = { start: [6_209_731_204, 6_209_731_204, 0], duration: [48_100_000, 260_000, 0] };
  equal([0, 1, 2].map((span) => startOf(row, span)), ["6.210 s", "6.20973 s", "0 ns"]);
}
