/** Mouse and touch on the lanes: drag pans, Shift and drag marks, Ctrl and wheel or two fingers zoom, a click selects. */

import { timeAt } from "./view.js";

const STILL = 4;
const WHEEL_STEP = 0.0022;

/**
 * What gestures do to the timeline; x and y are CSS pixels on the canvas.
 * @typedef {{window: () => import("./view.js").Window, width: () => number, pan: (ns: number) => void,
 *   zoom: (at: number, factor: number) => void, hover: (x: number, y: number) => void, leave: () => void,
 *   select: (x: number, y: number) => void, open: (x: number, y: number) => void,
 *   range: (from: number, to: number, isDone: boolean) => void, isMarking: () => boolean}} Actions
 */

/** @param {HTMLCanvasElement} canvas @param {Actions} actions */
export function listen(canvas, actions) {
  /** @type {Map<number, {x: number, y: number}>} */
  const pointers = new Map();
  let began = null, isMoved = false, marked = null;
  const timeOf = (x) => timeAt(actions.window(), x, actions.width());
  const perPixel = () => (actions.window().to - actions.window().from) / actions.width();

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    began = { x: event.offsetX, y: event.offsetY };
    isMoved = pointers.size > 1;
    marked = event.shiftKey || actions.isMarking() ? timeOf(event.offsetX) : null;
  });

  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) {
      actions.hover(event.offsetX, event.offsetY);
      return;
    }
    const now = { x: event.offsetX, y: event.offsetY };
    isMoved ||= Math.hypot(now.x - began.x, now.y - began.y) > STILL;
    if (pointers.size === 2) pinch(event.pointerId, before, now);
    else if (marked !== null) actions.range(marked, timeOf(now.x), false);
    else if (isMoved) actions.pan((before.x - now.x) * perPixel());
    pointers.set(event.pointerId, now);
  });

  /** Two fingers: the times below them stay below them. */
  function pinch(moving, before, now) {
    const other = [...pointers].find(([id]) => id !== moving)[1];
    const ratio = Math.max(Math.abs(before.x - other.x), 8) / Math.max(Math.abs(now.x - other.x), 8);
    actions.zoom(timeOf(other.x), ratio);
  }

  function end(event) {
    if (!pointers.delete(event.pointerId)) return;
    if (marked !== null && isMoved) actions.range(marked, timeOf(event.offsetX), true);
    else if (!isMoved && event.type === "pointerup") actions.select(event.offsetX, event.offsetY);
    marked = null;
  }
  canvas.addEventListener("pointerup", end);
  canvas.addEventListener("pointercancel", end);
  canvas.addEventListener("pointerleave", () => pointers.size === 0 && actions.leave());
  canvas.addEventListener("dblclick", (event) => actions.open(event.offsetX, event.offsetY));

  canvas.addEventListener("wheel", (event) => {
    const step = event.deltaMode === 1 ? 16 : 1;
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      actions.zoom(timeOf(event.offsetX), Math.exp(event.deltaY * step * WHEEL_STEP));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      actions.pan((event.deltaX || event.deltaY) * step * perPixel());
    }
  }, { passive: false });
}
