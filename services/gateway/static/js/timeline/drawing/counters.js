/** A counter as a thin area chart: its scale at the left, its value under the pointer. */

import { quantity } from "../format.js";
import { lowerBound } from "../data/store.js";
import { timeAt } from "../view.js";
import { sampled } from "./paint.js";

const DOT = 2.5;
const AWAY = 7;
const LEAST_LABELLED = 20;

/** The least and greatest value of a row, 0 among them so that heights compare. */
export function extentOf(row) {
  const top = row.pyramid.levels.at(-1);
  let least = 0, most = 0;
  for (let node = 0; node < top.count; node += 1) {
    most = Math.max(most, top.high[node]);
    least = Math.min(least, top.low[node]);
  }
  return { least, most };
}

/** The value of a counter at a time: that of the last sample before, null before the first. */
export function valueAt(row, time) {
  const next = lowerBound(row.start.subarray(0, row.size), time, row.size);
  const place = next < row.size && row.start[next] === time ? next : next - 1;
  return place >= 0 ? row.value[place] : null;
}

/** @param {CanvasRenderingContext2D} context @param {import("./marks.js").Marks} marks @param {import("./draw.js").Scene} scene */
export function drawCounter(context, marks, scene, line, width) {
  const { least, most } = extentOf(line.row);
  const bottom = line.y + line.height - 1;
  const scale = most > least ? (line.height - 3) / (most - least) : 0;
  const yOf = (value) => bottom - (value - least) * scale;
  const first = trace(context, scene, line, width, yOf);
  context.lineTo(lastX(scene, width), yOf(0));
  context.lineTo(first, yOf(0));
  context.fillStyle = scene.theme.accent;
  context.globalAlpha = 0.16;
  context.fill();
  context.globalAlpha = 1;
  trace(context, scene, line, width, yOf);
  context.strokeStyle = scene.theme.accent;
  context.lineWidth = 1;
  context.stroke();
  // A single sample has no line when the trace ends with it.
  if (line.row.size === 1) dot(context, scene, xOf(scene, width, line.row.start[0]), yOf(line.row.value[0]));
  const unit = line.block.lane.level;
  if (line.height >= LEAST_LABELLED) {
    marks.plate(quantity(most, unit), 5, line.y + 6, scene.theme.soft);
    if (least < 0) marks.plate(quantity(least, unit), 5, bottom - 5, scene.theme.soft);
  }
  underPointer(context, marks, scene, line, yOf, width);
}

const xOf = ({ window }, width, time) => ((time - window.from) / (window.to - window.from)) * width;

const lastX = (scene, width) => Math.min(width, xOf(scene, width, scene.store.end));

function dot(context, scene, x, y) {
  context.fillStyle = scene.theme.accent;
  context.beginPath();
  context.arc(x, y, DOT, 0, 2 * Math.PI);
  context.fill();
}

/** The path of a counter: steps from sample to sample; where many share a pixel, from the least to the greatest. Returns where it begins. */
function trace(context, scene, { row }, width, yOf) {
  const { low, high, before } = sampled(row, scene.window, width);
  let value = before, first = Number.isNaN(before) ? -1 : 0;
  context.beginPath();
  if (!Number.isNaN(before)) context.moveTo(0, yOf(before));
  for (let x = 0; x < width; x += 1) {
    if (Number.isNaN(high[x])) continue;
    if (Number.isNaN(value)) {
      context.moveTo(x, yOf(high[x]));
      first = x;
    } else context.lineTo(x, yOf(value));
    context.lineTo(x, yOf(high[x]));
    if (low[x] < high[x]) context.lineTo(x, yOf(low[x]));
    value = low[x] < high[x] ? (low[x] + high[x]) / 2 : high[x];
  }
  if (!Number.isNaN(value)) context.lineTo(lastX(scene, width), yOf(value));
  return Math.max(first, 0);
}

function underPointer(context, marks, scene, line, yOf, width) {
  if (scene.pointer === null) return;
  const value = valueAt(line.row, timeAt(scene.window, scene.pointer, width));
  if (value === null) return;
  dot(context, scene, scene.pointer, yOf(value));
  const text = quantity(value, line.block.lane.level);
  const length = context.measureText(text).width;
  const isRoom = scene.pointer + AWAY + length < width;
  marks.plate(text, isRoom ? scene.pointer + AWAY : scene.pointer - AWAY - length, line.y + line.height / 2);
}
