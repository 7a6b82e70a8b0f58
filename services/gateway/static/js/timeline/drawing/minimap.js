/** The whole run in a strip: how busy each moment is, hits of a search, and the window, which can be dragged. */

import { Painter } from "./paint.js";
import { panned, pixelOf, timeAt } from "../view.js";

const LEAST_WINDOW = 6;
const EDGE = 6;

export class Minimap {
  /** @param {HTMLCanvasElement} canvas @param {(window: import("../view.js").Window) => void} onWindow */
  constructor(canvas, onWindow) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.onWindow = onWindow;
    this.limits = { from: 0, to: 1 };
    this.window = this.limits;
    this.picture = null;
    this.#listen();
  }

  resize(width, density) {
    if (width === this.width && density === this.density) return;
    this.width = Math.max(1, width);
    this.height = this.canvas.clientHeight || 40;
    this.canvas.width = Math.round(this.width * density);
    this.canvas.height = Math.round(this.height * density);
    this.density = density;
    this.picture = null;
  }

  /** Forget the picture of the run: its spans, colours or limits changed. */
  stale() {
    this.picture = null;
  }

  /** Draw the run once, and the window above it. @param {import("./draw.js").Scene} scene */
  draw(scene, limits, rows) {
    this.limits = limits;
    this.window = scene.window;
    const { context } = this;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.imageSmoothingEnabled = false;
    context.fillStyle = scene.theme.paper;
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    if (!this.picture || this.picture.height !== Math.max(rows.length, 1)) this.picture = this.#paint(scene, rows);
    context.drawImage(this.picture, 0, 0, this.canvas.width, this.picture.height, 0, 0, this.canvas.width, this.canvas.height);
    context.setTransform(this.density, 0, 0, this.density, 0, 0);
    const from = pixelOf(limits, scene.window.from, this.width);
    const to = Math.max(pixelOf(limits, scene.window.to, this.width), from + LEAST_WINDOW);
    context.fillStyle = scene.theme.paper;
    context.globalAlpha = 0.7;
    context.fillRect(0, 0, from, this.height);
    context.fillRect(to, 0, this.width - to, this.height);
    context.globalAlpha = 1;
    context.strokeStyle = scene.theme.ink;
    context.strokeRect(from + 0.5, 0.5, to - from - 1, this.height - 1);
  }

  #paint(scene, rows) {
    const picture = document.createElement("canvas");
    picture.width = this.canvas.width;
    picture.height = Math.max(rows.length, 1);
    const pen = picture.getContext("2d");
    const image = pen.createImageData(picture.width, picture.height);
    const painter = new Painter(new Uint32Array(image.data.buffer), picture.width, scene.theme.packed);
    rows.forEach((row, line) => painter.paint(row, this.limits, scene.palette.shown, line, Infinity));
    pen.putImageData(image, 0, 0);
    return picture;
  }

  #listen() {
    let grip = null;
    const timeOf = (event) => timeAt(this.limits, event.offsetX, this.width);
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      const [from, to] = [this.window.from, this.window.to].map((time) => pixelOf(this.limits, time, this.width));
      if (Math.abs(event.offsetX - from) < EDGE && to - from > 3 * EDGE) grip = "from";
      else if (Math.abs(event.offsetX - to) < EDGE && to - from > 3 * EDGE) grip = "to";
      else grip = "all";
      if (grip === "all" && (event.offsetX < from || event.offsetX > to)) this.#centre(timeOf(event));
      this.last = timeOf(event);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!grip || !(event.buttons & 1)) return;
      const time = timeOf(event);
      if (grip === "all") this.onWindow(panned(this.window, this.limits, time - this.last));
      else if (grip === "from" ? time < this.window.to : time > this.window.from) this.onWindow({ ...this.window, [grip]: time });
      this.last = time;
    });
    for (const name of ["pointerup", "pointercancel"]) this.canvas.addEventListener(name, () => (grip = null));
  }

  #centre(time) {
    const middle = (this.window.from + this.window.to) / 2;
    this.onWindow(panned(this.window, this.limits, time - middle));
  }
}
