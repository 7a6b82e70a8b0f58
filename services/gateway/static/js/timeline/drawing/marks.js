/** What is drawn around the spans: axis, grid, headings, gaps, hits, selection, flows and ranges. */

import { count, duration, instant } from "../format.js";
import { hitColumns } from "../data/hit.js";
import { blockOf, topOf } from "./layout.js";
import { pixelOf, ticks, timeAt } from "../view.js";

const LEAST_OUTLINE = 3;

export class Marks {
  /** @param {CanvasRenderingContext2D} context */
  constructor(context) {
    this.context = context;
    this.hatching = null;
    this.hatchedFor = "";
  }

  /** Take the scene of a frame. */
  begin(scene, width, height) {
    Object.assign(this, { scene, width, height });
    this.said = new Set();
    this.axisTicks = ticks(scene.window, width);
    if (this.hatchedFor !== scene.theme.line) this.#makeHatching(scene.theme);
  }

  #makeHatching({ line, paper }) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const pen = tile.getContext("2d");
    pen.fillStyle = paper;
    pen.fillRect(0, 0, 8, 8);
    pen.strokeStyle = line;
    pen.beginPath();
    for (const shift of [-8, 0, 8]) {
      pen.moveTo(shift, 8);
      pen.lineTo(shift + 8, 0);
    }
    pen.stroke();
    this.hatching = this.context.createPattern(tile, "repeat");
    this.hatchedFor = line;
  }

  x(time) {
    return pixelOf(this.scene.window, time, this.width);
  }

  /** Lines of the axis across the lanes. */
  grid(top, height) {
    this.context.fillStyle = this.scene.theme.line;
    this.context.globalAlpha = 0.6;
    for (const time of this.axisTicks.times) this.context.fillRect(Math.round(this.x(time)), top, 1, height);
    this.context.globalAlpha = 1;
  }

  axis(height) {
    const { context, scene } = this;
    context.fillStyle = scene.theme.card;
    context.fillRect(0, 0, this.width, height);
    context.fillStyle = scene.theme.line;
    context.fillRect(0, height - 1, this.width, 1);
    for (const time of this.axisTicks.times) {
      const x = Math.round(this.x(time));
      context.fillStyle = scene.theme.line;
      context.fillRect(x, height - 6, 1, 6);
      context.fillStyle = scene.theme.soft;
      const text = instant(time, this.axisTicks.step);
      // Cut off at the edge, 60 ms would read as 60 m.
      if (x + 4 + context.measureText(text).width <= this.width) context.fillText(text, x + 4, height / 2);
    }
    this.pointed(height);
    if (scene.now !== null) {
      context.fillStyle = scene.theme.accent;
      context.fillRect(Math.round(this.x(scene.now)), 0, 2, this.height);
    }
  }

  /** The ground of a heading, and the line below a lane. */
  block(block, y) {
    const { context, scene } = this;
    context.fillStyle = block.kind === "group" ? scene.theme.card : scene.theme.line;
    if (block.kind === "group") context.fillRect(0, y, this.width, block.height);
    else context.fillRect(0, y + block.height - 1, this.width, 1);
  }

  /** Stretches whose spans are missing, below those that came: hatched in lanes, named in a heading. */
  gaps(block, y) {
    const { context, scene } = this;
    for (const gap of scene.gaps) {
      const isOther = block.lane && gap.lane !== null && gap.lane !== undefined && gap.lane !== block.lane.lane;
      const from = Math.max(this.x(gap.from_ns), 0), to = Math.min(Math.max(this.x(gap.to_ns), from + LEAST_OUTLINE), this.width);
      if (isOther || to <= 0 || from >= this.width) continue;
      if (block.kind === "group") {
        const text = gap.count ? `${count(gap.count)} spans missing` : "spans missing";
        if (to - from > 8 + 6 * text.length && this.isFirst(gap)) this.plate(text, from + 6, y + block.height / 2);
        continue;
      }
      context.fillStyle = this.hatching;
      context.fillRect(from, y + 1, to - from, block.height - 2);
    }
  }

  /** Whether a gap of all lanes is met for the first time in this frame: it is named once. */
  isFirst(gap) {
    const isNew = !this.said.has(gap);
    this.said.add(gap);
    return isNew;
  }

  /** Where the pointer is, through all lanes. */
  pointer(axis) {
    const { context, scene } = this;
    if (scene.pointer === null) return;
    context.fillStyle = scene.theme.soft;
    context.globalAlpha = 0.5;
    context.fillRect(Math.round(scene.pointer), axis, 1, this.height - axis);
    context.globalAlpha = 1;
  }

  /** The time under the pointer, on the axis. */
  pointed(axis) {
    const { context, scene } = this;
    if (scene.pointer === null) return;
    const step = (scene.window.to - scene.window.from) / this.width;
    const text = instant(timeAt(scene.window, scene.pointer, this.width), step);
    const length = context.measureText(text).width;
    this.plate(text, Math.min(Math.max(scene.pointer - length / 2, 3), this.width - length - 3), axis / 2);
  }

  /** A text on a ground of its own. */
  plate(text, x, y, ink = this.scene.theme.ink) {
    const { context, scene } = this;
    const width = context.measureText(text).width;
    context.fillStyle = scene.theme.paper;
    context.fillRect(x - 3, y - 7, width + 6, 14);
    context.fillStyle = ink;
    context.fillText(text, x, y);
  }

  /** Hits, the hovered and the selected span of one line. */
  line({ row, y, height }) {
    const { context, scene } = this;
    const hits = scene.hits?.get(row);
    if (hits?.length) {
      context.fillStyle = scene.theme.ink;
      for (const column of hitColumns(row, hits, scene.window, this.width)) context.fillRect(column, y, 2, 3);
    }
    if (scene.hovered?.row === row) this.#outline(scene.hovered, y, height, scene.theme.soft, 1);
    if (scene.selected?.row === row) this.#outline(scene.selected, y, height, scene.theme.ink, 2);
  }

  #outline({ row, span }, y, height, style, thickness) {
    const { context } = this;
    const from = Math.max(this.x(row.start[span]), -5);
    const to = Math.min(Math.max(this.x(row.end(span)), from + LEAST_OUTLINE), this.width + 5);
    if (to < 0 || from > this.width) return;
    context.strokeStyle = style;
    context.lineWidth = thickness;
    context.strokeRect(from + 0.5, y + 0.5, to - from - 1, height - 1);
  }

  /** Where a span is on the screen; spans of folded groups are nowhere. */
  #place({ row, span }, axis) {
    const { layout, scrolled } = this.scene;
    const block = blockOf(layout, row.lane);
    if (!block) return null;
    const line = block.lines.find(({ depth }) => depth === row.depth) ?? block.lines[0];
    const y = axis + topOf(block, scrolled) + line.y - block.y + line.height / 2;
    return { from: this.x(row.start[span]), to: this.x(row.end(span)), y };
  }

  /** Curves from the selected span to the work that it launched, or back. */
  flows(axis) {
    const { context, scene } = this;
    const own = scene.selected && scene.flows.length ? this.#place(scene.selected, axis) : null;
    if (!own) return;
    context.strokeStyle = scene.theme.accent;
    context.fillStyle = scene.theme.accent;
    context.lineWidth = 1.5;
    for (const place of scene.flows) {
      const other = this.#place(place, axis);
      if (!other) continue;
      const [left, right] = scene.selected.row.kind[scene.selected.span] === 1 ? [own, other] : [other, own];
      const bend = Math.max(20, Math.abs(right.from - left.to) / 2);
      context.beginPath();
      context.moveTo(left.to, left.y);
      context.bezierCurveTo(left.to + bend, left.y, right.from - bend, right.y, right.from, right.y);
      context.stroke();
      context.beginPath();
      context.moveTo(right.from, right.y);
      context.lineTo(right.from - 6, right.y - 4);
      context.lineTo(right.from - 6, right.y + 4);
      context.fill();
    }
  }

  /** The marked range, with its length. */
  range(axis) {
    const { context, scene } = this;
    if (!scene.range) return;
    const from = this.x(scene.range.from), to = this.x(scene.range.to);
    context.fillStyle = scene.theme.accent;
    context.globalAlpha = 0.13;
    context.fillRect(from, axis, to - from, this.height - axis);
    context.globalAlpha = 1;
    context.fillRect(from, axis, 1, this.height - axis);
    context.fillRect(to, axis, 1, this.height - axis);
    const text = duration(scene.range.to - scene.range.from);
    const middle = Math.min(Math.max((from + to) / 2, 30), this.width - 30);
    this.plate(text, middle - context.measureText(text).width / 2, axis + 10);
  }
}
