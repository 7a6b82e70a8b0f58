// Live strips of one run: throughput, latency and queries in flight, drawn by uPlot when it is
// loaded. A run that begins starts them anew.

import { SERIES } from "../colours.js";
import { duration, number, percent, percentile, quantity, rate } from "../quantities.js";

const MOST_POINTS = 600;
const HEIGHT_PX = 130;

/** Load a classic script once. */
function loaded(address) {
  return new Promise((resolve, reject) => {
    if (window.uPlot) return resolve(window.uPlot);
    const script = document.createElement("script");
    script.src = address;
    script.addEventListener("load", () => resolve(window.uPlot));
    script.addEventListener("error", reject);
    document.head.append(script);
  });
}

const PERCENTILES = ["p50", "p90", "p99"];
/** Of each strip: its lines, their values in a reading, these as texts, and how a value alone is shown. */
const STRIPS = {
  throughput: { lines: ["samples/s"], values: (r) => [r.samplesRate], texts: (r) => [`${rate(r.samplesRate)} samples/s`], label: (v) => (v ? rate(v) : "0"), unit: " samples/s" },
  latency: {
    lines: PERCENTILES,
    values: (r) => [r.p50_ns, r.p90_ns, r.p99_ns].map((ns) => (ns < 0 ? null : ns)),
    texts: (r) => PERCENTILES.map((name) => `${name} ${percentile(r[`${name}_ns`], name, r.answered)}`),
    label: (v) => (v ? duration(v) : "0"),
  },
  flight: { lines: ["in flight"], values: (r) => [r.flight], texts: (r) => [number(r.flight)], label: number },
  cpu: { lines: ["cores"], values: (r) => [r.cpu_cores ?? undefined], texts: (r) => [`${number(r.cpu_cores)} cores`], label: number, unit: " cores" },
  gpu: { lines: ["use"], values: (r) => [r.gpu_share ?? undefined], texts: (r) => [percent(r.gpu_share)], label: (v) => `${number(100 * v)}%` },
  power: { lines: ["power"], values: (r) => [r.power_w ?? undefined], texts: (r) => [quantity(r.power_w, "W")], label: (v) => quantity(v, "W") },
};
/** Strips that are absent where the agent says nothing of them. */
const OPTIONAL = new Set(["cpu", "gpu", "power"]);

/** Show the figures of a strip above it: those of several lines each with the colour of its line. */
function write(name, texts, when = "") {
  const parts = texts.flatMap((text, place) => {
    const key = document.createElement("i");
    key.style.background = SERIES[place];
    return [place ? " · " : when, ...(texts.length > 1 ? [key] : []), text];
  });
  document.querySelector(`[data-figure="${name}"]`).replaceChildren(...parts);
}

/** The strips of the page; figures stand above the lines, also where uPlot does not load. */
export class Strips {
  constructor(address) {
    this.run = "";
    this.plots = {};
    this.data = {};
    this.texts = {};
    this.ready = loaded(address).then((uPlot) => { this.uPlot = uPlot; }, () => undefined);
    document.addEventListener("themechange", () => this.restart());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.restart());
    addEventListener("resize", () => this.resize());
  }

  /** Add a reading; that of another run, or of another attempt, begins anew. */
  add(reading) {
    const key = `${reading.run} ${reading.attempt}`;
    if (key !== this.run) {
      this.run = key;
      this.data = {};
      this.restart();
      for (const name of OPTIONAL) document.getElementById(`strip-${name}`).hidden = true;
    }
    for (const [name, strip] of Object.entries(STRIPS)) {
      const columns = (this.data[name] ??= [[], ...strip.lines.map(() => [])]);
      const values = strip.values(reading);
      if (OPTIONAL.has(name) && values[0] === undefined) continue;
      document.getElementById(`strip-${name}`).hidden = false;
      this.texts[name] = strip.texts(reading);
      this.point(name);
      const [time_s, last_s] = [reading.until_ns / 1e9, columns[0].at(-1) ?? -1];
      if (values[0] === undefined || time_s < last_s) continue;
      // No query ended since: the newest point is the last one, corrected.
      if (time_s === last_s) columns.forEach((column) => column.pop());
      [time_s, ...values].forEach((value, place) => columns[place].push(value ?? null));
      if (columns[0].length > MOST_POINTS) columns.forEach((column) => column.shift());
      this.draw(name);
    }
  }

  draw(name) {
    if (!this.uPlot) return;
    const figure = document.getElementById(`strip-${name}`);
    this.plots[name] ??= new this.uPlot(this.options(name, figure.clientWidth - 20), this.data[name], figure);
    this.plots[name].setData(this.data[name]);
  }

  /** Show the figures where the pointer is; the newest while it is elsewhere. */
  point(name) {
    const { lines, label, unit = "" } = STRIPS[name];
    const at = this.plots[name]?.cursor.idx;
    const [times, ...columns] = this.data[name];
    if (at == null || times[at] === undefined) return write(name, this.texts[name]);
    const values = columns.map((column) => (column[at] === null ? "–" : `${label(column[at])}${unit}`));
    write(name, lines.length > 1 ? lines.map((line, place) => `${line} ${values[place]}`) : values, `at ${number(times[at])} s: `);
  }

  options(name, width) {
    const strip = STRIPS[name];
    const style = getComputedStyle(document.body);
    const probe = document.createElement("span");
    probe.style.color = "var(--line)";
    document.body.append(probe);
    const line = getComputedStyle(probe).color;
    probe.style.color = "var(--soft)";
    const soft = getComputedStyle(probe).color;
    probe.remove();
    const axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: `11px ${style.fontFamily || "sans-serif"}` };
    return {
      width,
      height: HEIGHT_PX,
      legend: { show: false },
      cursor: { sync: { key: "live", scales: ["x", null] }, y: false },
      hooks: { setCursor: [() => this.point(name)] },
      scales: { x: { time: false }, y: { range: (_, __, most) => [0, most > 0 ? most * 1.1 : 1] } },
      axes: [
        { ...axis, values: (_, ticks) => ticks.map((t) => `${t} s`), size: 22 },
        { ...axis, values: (_, ticks) => ticks.map(strip.label), size: 58 },
      ],
      series: [{}, ...strip.lines.map((label, place) => ({ label, stroke: SERIES[place], width: 1.5, points: { show: false } }))],
    };
  }

  restart() {
    for (const plot of Object.values(this.plots)) plot.destroy();
    this.plots = {};
    for (const name of Object.keys(this.data)) if (this.data[name][0].length) this.draw(name);
  }

  resize() {
    for (const [name, plot] of Object.entries(this.plots)) {
      plot.setSize({ width: document.getElementById(`strip-${name}`).clientWidth - 20, height: HEIGHT_PX });
    }
  }
}
