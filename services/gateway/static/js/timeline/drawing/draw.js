/**
 * Draws the lanes on a canvas: lines of pixels from the painter, then labels and marks above them.
 *
 * What a frame costs depends on the size of the screen alone.
 */

import { count, duration, shortened, titleOf } from "../format.js";
import { drawCounter } from "./counters.js";
import { topOf } from "./layout.js";
import { Marks } from "./marks.js";
import { Painter, WideSpans } from "./paint.js";
import { lightness } from "./palette.js";

export const AXIS = 22;
const FONT = "11px system-ui, sans-serif";
const LABEL = 40;
const MOST_LETTERS = 160;

/**
 * All that a frame shows.
 * @typedef {{store: import("../data/store.js").Store, layout: ReturnType<import("./layout.js").layoutOf>,
 *   scrolled: number, window: import("../view.js").Window, palette: import("./palette.js").Palette,
 *   theme: Theme, selected: import("../data/selection.js").Place | null, hovered: import("../data/selection.js").Place | null,
 *   hits: Map<object, Uint32Array> | null, range: import("../view.js").Window | null,
 *   flows: import("../data/selection.js").Place[], gaps: {lane: number | null, from_ns: number, to_ns: number, count: number}[],
 *   pointer: number | null, now: number | null}} Scene
 * @typedef {{ink: string, paper: string, card: string, line: string, soft: string, accent: string, packed: number}} Theme
 */

export class Screen {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.strips = document.createElement("canvas");
    this.stripContext = this.strips.getContext("2d", { willReadFrequently: true });
    this.marks = new Marks(this.context);
    this.wide = new WideSpans();
    /** @type {Map<string, {text: string, width: number}>} */
    this.labels = new Map();
    this.steps = 0;
    this.resize(1, 1, 1);
  }

  /** Take a size in CSS pixels and how many pixels of the screen one of them has. */
  resize(width, height, density) {
    const size = `${Math.floor(width)} ${Math.floor(height)} ${density}`;
    if (size === this.size) return;
    this.size = size;
    this.width = Math.max(1, Math.floor(width));
    this.height = Math.max(1, Math.floor(height));
    this.density = density;
    this.canvas.width = Math.round(this.width * density);
    this.canvas.height = Math.round(this.height * density);
    this.canvas.style.height = `${this.height}px`;
  }

  /** @param {Scene} scene */
  draw(scene) {
    const { context } = this;
    context.setTransform(this.density, 0, 0, this.density, 0, 0);
    context.fillStyle = scene.theme.paper;
    context.fillRect(0, 0, this.width, this.height);
    context.font = FONT;
    context.textBaseline = "middle";
    this.steps = 0;
    this.marks.begin(scene, this.width, this.height);
    const { blocks, pinnedHeight } = scene.layout;
    const top = AXIS + pinnedHeight;
    this.#area(scene, blocks.filter((block) => !block.isPinned), top, this.height - top);
    if (pinnedHeight > 0) this.#area(scene, blocks.filter((block) => block.isPinned), AXIS, pinnedHeight);
    this.marks.pointer(AXIS);
    this.marks.flows(AXIS);
    this.marks.range(AXIS);
    this.marks.axis(AXIS);
  }

  /** Draw some blocks, clipped to a part of the canvas. */
  #area(scene, blocks, top, height) {
    const { context } = this;
    context.save();
    context.beginPath();
    context.rect(0, top, this.width, height);
    context.clip();
    this.marks.grid(top, height);
    const placed = blocks
      .map((block) => ({ block, y: AXIS + topOf(block, scene.scrolled) }))
      .filter(({ block, y }) => y < top + height && y + block.height > top);
    for (const { block, y } of placed) {
      this.marks.block(block, y);
      this.marks.gaps(block, y);
    }
    const lines = this.#linesOf(scene, placed);
    this.#paint(scene, lines.filter((line) => !line.isCounter));
    for (const line of lines) if (line.isCounter) drawCounter(this.context, this.marks, scene, line, this.width);
    for (const line of lines) this.marks.line(line);
    context.restore();
  }

  /** The rows on the screen and where they are. */
  #linesOf(scene, placed) {
    const lines = [];
    for (const { block, y } of placed) {
      for (const line of block.lines) {
        const row = scene.store.row(block.lane.lane, line.depth);
        if (row?.size) lines.push({ row, y: y + line.y - block.y, height: line.height - 1, isCounter: block.lane.group === "counter", block });
      }
    }
    return lines;
  }

  #paint(scene, lines) {
    if (lines.length === 0) return;
    const width = this.canvas.width;
    if (this.strips.width !== width || this.strips.height < lines.length) {
      this.strips.width = width;
      this.strips.height = Math.max(lines.length, this.strips.height);
    }
    const image = this.stripContext.createImageData(width, lines.length);
    const painter = new Painter(new Uint32Array(image.data.buffer), width, scene.theme.packed);
    painter.wide = this.wide;
    this.wide.size = 0;
    lines.forEach((line, number) => painter.paint(line.row, scene.window, scene.palette.shown, number, LABEL * this.density));
    this.steps += painter.steps;
    this.stripContext.putImageData(image, 0, 0);
    this.context.imageSmoothingEnabled = false;
    lines.forEach((line, number) => this.context.drawImage(this.strips, 0, number, width, 1, 0, line.y, this.width, line.height));
    this.#labels(scene, lines);
  }

  #labels(scene, lines) {
    const { context, density } = this;
    const { data, size } = this.wide;
    let style = "";
    for (let at = 0; at < size; at += 1) {
      const line = lines[data[4 * at]], span = data[4 * at + 1];
      if (line.height < 12) continue;
      const from = data[4 * at + 2] / density, to = data[4 * at + 3] / density;
      const colour = scene.palette.shown[line.row.name[span]];
      const wanted = lightness(colour) > 0.5 ? "#000" : "#fff";
      if (wanted !== style) context.fillStyle = style = wanted;
      this.#label(scene.store, line, span, from + 4, to - from - 8);
    }
  }

  #label(store, line, span, x, room) {
    const { row } = line;
    const name = titleOf(store, { row, span });
    const spans = row.count[span];
    const text = spans > 1 ? `${count(spans)} spans, longest ${name}` : name;
    const label = this.#measured(text);
    const y = line.y + line.height / 2 + 0.5;
    if (label.width <= room) {
      this.context.fillText(label.text, x, y);
      const length = this.#measured(duration(row.duration[span]));
      if (label.width + length.width + 12 < room) {
        this.context.globalAlpha = 0.75;
        this.context.fillText(length.text, x + label.width + 8, y);
        this.context.globalAlpha = 1;
      }
    } else {
      let letters = Math.floor((label.text.length * room) / label.width) - 1;
      while (letters >= 2 && this.#measured(`${label.text.slice(0, letters)}…`).width > room) letters -= 1;
      if (letters >= 2) this.context.fillText(`${label.text.slice(0, letters)}…`, x, y);
    }
  }

  #measured(text) {
    let label = this.labels.get(text);
    if (!label) {
      if (this.labels.size > 20_000) this.labels.clear();
      const short = shortened(text, MOST_LETTERS);
      label = { text: short, width: this.context.measureText(short).width };
      this.labels.set(text, label);
    }
    return label;
  }
}
