/** The names of groups and lanes beside the canvas: buttons that fold and pin. */

import { count } from "./format.js";

const FOLD = { true: "▸", false: "▾" };

/** @param {HTMLElement} gutter @param {(key: string) => void} onFold @param {(key: string) => void} onPin */
export function fillGutter(gutter, layout, axis, { onFold, onPin }) {
  const pinned = Object.assign(document.createElement("div"), { className: "pinned" });
  pinned.style.top = `${axis}px`;
  const items = [];
  for (const block of layout.blocks) {
    const item = itemOf(block, onFold, onPin);
    if (block.isPinned) pinned.append(item);
    else items.push(item);
  }
  gutter.style.paddingTop = `${axis}px`;
  gutter.style.height = `${layout.height + axis}px`;
  gutter.replaceChildren(...(pinned.childElementCount ? [pinned] : []), ...items);
}

function itemOf(block, onFold, onPin) {
  const item = document.createElement("div");
  item.className = block.kind;
  item.style.height = `${block.height}px`;
  const fold = document.createElement("button");
  fold.type = "button";
  fold.className = "fold";
  fold.setAttribute("aria-expanded", String(!block.isFolded));
  const name = Object.assign(document.createElement("span"), { className: "name", textContent: block.title });
  const sign = Object.assign(document.createElement("span"), { className: "sign", textContent: FOLD[block.isFolded] });
  sign.setAttribute("aria-hidden", "true");
  fold.append(sign, name);
  const isCounter = block.lane?.group === "counter";
  const number = count(block.lanes.reduce((sum, lane) => sum + lane.spans, 0));
  fold.title = isCounter ? `${block.lane.title}${unitOf(block.lane)}: ${number} samples` : `${block.title}: ${number} spans`;
  fold.addEventListener("click", () => onFold(block.key));
  item.append(fold);
  if (block.kind === "lane") item.append(pinOf(block, onPin));
  return item;
}

/** The unit of a counter behind its name: counts have none. */
function unitOf(lane) {
  const name = { By: "bytes", 1: "", Cel: "°C" }[lane.level] ?? lane.level;
  return name ? ` (${name})` : "";
}

function pinOf(block, onPin) {
  const pin = document.createElement("button");
  pin.type = "button";
  pin.className = "pin";
  pin.textContent = block.isPinned ? "★" : "☆";
  pin.setAttribute("aria-pressed", String(block.isPinned));
  pin.setAttribute("aria-label", `Pin ${block.title} to the top`);
  pin.title = "pin to the top (p)";
  pin.addEventListener("click", () => onPin(block.key));
  return pin;
}
