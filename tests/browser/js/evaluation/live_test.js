// Live figures: rates between readings, what a run still takes, bars, and events in words.

import { equal, ok } from "/js/check.js";
import { colourOf, hashOf } from "/static/js/colours.js";
import { barsOf } from "/static/js/evaluation/histogram.js";
import { Progress, secondsLeft } from "/static/js/evaluation/progress.js";
import { showReading, showRuns } from "/static/js/evaluation/runs.js";
import { sentence } from "/static/js/evaluation/story.js";
import { percentile } from "/static/js/quantities.js";

function tick(fields) {
  const all = { attempt: 1, answered: 0, failed: 0, spans: 0, samples: 0, busy_ns: 0, until_ns: -1, p50_ns: -1, p90_ns: -1, p99_ns: -1, histogram: [], ...fields };
  return Object.fromEntries(Object.entries({ run: "r", ...all }).map(([name, value]) => [name, [value]]));
}

export function testRatesAreOfTheRunsOwnClock() {
  const progress = new Progress();
  progress.take(tick({ answered: 10, samples: 40, busy_ns: 1e9, until_ns: 1e9 }));
  const [reading] = progress.take(tick({ answered: 30, samples: 120, busy_ns: 3e9, until_ns: 2e9 }));
  equal([reading.rate, reading.samplesRate, reading.flight], [20, 80, 2]);
  equal(secondsLeft(130, reading), 5);
}

export function testAnAttemptBeforeIsNoNewsAndANewOneBeginsAnew() {
  const progress = new Progress();
  progress.take(tick({ attempt: 2, answered: 10, until_ns: 5 }));
  equal(progress.take(tick({ attempt: 1, answered: 50, until_ns: 9 })), []);
  const [reading] = progress.take(tick({ attempt: 3, answered: 1, until_ns: 2, histogram: null }));
  equal([reading.answered, reading.rate, reading.histogram], [1, undefined, []]);
}

export function testAHistogramThatDidNotChangeIsKept() {
  const progress = new Progress();
  progress.take(tick({ answered: 1, histogram: [8, 1], slowest: [0] }));
  const [reading] = progress.take(tick({ answered: 1, spans: 5, histogram: null, slowest: null }));
  equal([reading.histogram, reading.slowest], [[8, 1], [0]]);
}

export function testWhatARunUsesIsNewsAlsoWhileNoQueryEnds() {
  const progress = new Progress();
  progress.take(tick({ answered: 10, samples: 10, until_ns: 1e9, cpu_cores: 1 }));
  progress.take(tick({ answered: 30, samples: 30, until_ns: 2e9, cpu_cores: 1 }));
  equal(progress.take(tick({ answered: 30, samples: 30, until_ns: 2e9, cpu_cores: 1 })), []);
  for (const use of [{ cpu_cores: 2 }, { cpu_cores: 2, gpu_share: 0.5 }, { cpu_cores: 2, gpu_share: 0.5, power_w: 300 }]) {
    const [reading] = progress.take(tick({ answered: 30, samples: 30, until_ns: 2e9, ...use }));
    equal([reading.cpu_cores, reading.gpu_share ?? null, reading.rate], [2, use.gpu_share ?? null, 20]);
  }
  const [reading] = progress.take(tick({ answered: 60, samples: 60, until_ns: 3e9, cpu_cores: 2 }));
  equal(reading.rate, 30);
}

export function testCountsWithAllDigitsNeverGoBack() {
  const fields = ["load", "state", "note", "left", "answered", "spans", "p50", "p90", "p99"].map((name) => `<i data-field="${name}"></i>`).join("");
  document.body.innerHTML = `<div id="runs"><p data-run="r" data-attempt="1">${fields}<b class="failures"><i data-field="failed"></i></b><progress></progress></p></div>`;
  const texts = () => ["answered", "failed", "spans"].map((name) => document.querySelector(`[data-field=${name}]`).textContent);
  showRuns([{ run: "r", attempt: 1, state: "recorded", queries: 9000, answered: 1200, failed_queries: 1001, spans: 2_124_000 }]);
  showReading({ run: "r", attempt: 1, answered: 1300, failed: 0, spans: 7, p50_ns: 1, p90_ns: 1, p99_ns: 1 });
  equal(texts(), ["1,300", "1,001", "2,124,000"]);
}

export function testBarsHaveThoseBetweenAndTheShareBelow() {
  const bars = barsOf([8, 1, 10, 3]);
  equal(bars.map((bar) => bar.count), [1, 0, 3]);
  equal(bars.map((bar) => bar.below), [0.25, 0.25, 1]);
  equal(bars[0].from, 2);
  equal(barsOf([]), []);
  equal(barsOf([8, 1, 10, 3], [40, 7]).map((bar) => bar.query), [40, -1, 7]);
  equal(barsOf([8, 1]).map((bar) => bar.query), [-1]);
}

export function testEventsAreSentencesAlsoOfAnotherVersion() {
  const run = { run: "b1", agent: "vm", attempt: 1, answered: 5, failed_queries: 1, spans: 2 };
  equal(sentence({ happened: "run.completed", runs: [run] }), "b1 has ended: 5 queries answered, 1 failed.");
  equal(sentence({ happened: "run.slept_in", runs: [run] }), "b1 is slept in.");
  equal(sentence({ happened: "moon.risen" }), "moon risen.");
  ok(!sentence({ happened: "evaluation.planned", runs: [run], agents: ["vm"] }).includes("planned."));
}

export function testColoursAreThoseOfTheServer() {
  equal([hashOf(""), hashOf("a"), hashOf("foobar")], [0x811c9dc5, 0xe40c292c, 0xbf9cf968]);
  equal(colourOf("Conv 2-D"), colourOf("conv2d"));
}

export function testAPercentileOfFewQueriesSaysSo() {
  equal(percentile(5e6, "p99", 661), "5\u00a0ms (few\u00a0queries)");
  equal(percentile(5e6, "p99", 662), "5\u00a0ms");
  equal(percentile(5e6, "p50", 1), "5\u00a0ms");
  equal(percentile(-1, "p99", 0), "–");
}
