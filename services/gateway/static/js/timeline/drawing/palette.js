/** Colours of names as the painter wants them: opaque 0xffbbggrr, and whether text on them is light. */

import { colourOf } from "../../colours.js";

const DIMMED = 0.22;

/** The opaque 0xffbbggrr of a colour #rrggbb. */
export function packed(hex) {
  const value = Number.parseInt(hex.slice(1), 16);
  return (0xff000000 | ((value & 255) << 16) | (value & 0xff00) | (value >> 16)) >>> 0;
}

/** The opaque 0xffbbggrr of a colour as the browser computes it: rgb(r, g, b) or color(srgb r g b). */
export function packedStyle(style) {
  const isShare = style.startsWith("color(");
  const [red, green, blue] = style.match(/[\d.]+(?:e-?\d+)?/g).map((part) => Math.round(Number(part) * (isShare ? 255 : 1)));
  return (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;
}

/** How light a colour is, 0 to 1. */
export function lightness(colour) {
  return (0.2126 * (colour & 255) + 0.7152 * ((colour >> 8) & 255) + 0.0722 * ((colour >> 16) & 255)) / 255;
}

export class Palette {
  constructor() {
    this.colours = new Uint32Array(256);
    this.shown = this.colours;
    this.size = 0;
  }

  /** Learn the colours of names that are new; a name of any length counts by its first part. */
  learn(names) {
    if (names.length > this.colours.length) {
      const larger = new Uint32Array(2 * names.length);
      larger.set(this.colours);
      this.colours = larger;
    }
    for (; this.size < names.length; this.size += 1) this.colours[this.size] = packed(colourOf(names[this.size].slice(0, 200)));
  }

  /** Dim all names but those that are marked; null shows all. */
  dim(isNamed, paper) {
    if (!isNamed) {
      this.shown = this.colours;
      return;
    }
    this.shown = this.colours.map((colour, name) => (isNamed[name] ? colour : faded(colour, paper)));
  }
}

function faded(colour, paper) {
  let result = 0xff;
  for (const shift of [16, 8, 0]) {
    const part = ((colour >> shift) & 255) * DIMMED + ((paper >> shift) & 255) * (1 - DIMMED);
    result = result * 256 + Math.round(part);
  }
  return result >>> 0;
}
