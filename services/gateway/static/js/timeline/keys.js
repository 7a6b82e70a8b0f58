/** What keys do. One table: it binds the keys and makes the help. */

/** @typedef {{keys: string[], shown: string, does: string, action: string, isGlobal: boolean}} Binding */

/** Bindings; those that are not global work only while the timeline has the focus. @type {Binding[]} */
export const BINDINGS = [
  { keys: ["w", "+", "="], shown: "w", does: "zoom in", action: "zoomIn", isGlobal: true },
  { keys: ["s", "-"], shown: "s", does: "zoom out", action: "zoomOut", isGlobal: true },
  { keys: ["a"], shown: "a", does: "earlier", action: "earlier", isGlobal: true },
  { keys: ["d"], shown: "d", does: "later", action: "later", isGlobal: true },
  { keys: ["ArrowLeft"], shown: "←", does: "earlier", action: "earlier", isGlobal: false },
  { keys: ["ArrowRight"], shown: "→", does: "later", action: "later", isGlobal: false },
  { keys: ["ArrowUp"], shown: "↑", does: "zoom in", action: "zoomIn", isGlobal: false },
  { keys: ["ArrowDown"], shown: "↓", does: "zoom out", action: "zoomOut", isGlobal: false },
  { keys: ["0"], shown: "0", does: "show the whole run", action: "whole", isGlobal: true },
  { keys: ["f"], shown: "f", does: "fit the selected span or range", action: "fit", isGlobal: true },
  { keys: ["x"], shown: "x", does: "the slowest query", action: "slowest", isGlobal: true },
  { keys: ["t"], shown: "t", does: "a typical query: the median", action: "typical", isGlobal: true },
  { keys: ["["], shown: "[", does: "previous span of the same name", action: "previousOfName", isGlobal: true },
  { keys: ["]"], shown: "]", does: "next span of the same name", action: "nextOfName", isGlobal: true },
  { keys: [","], shown: ",", does: "span before, in the same lane", action: "before", isGlobal: true },
  { keys: ["."], shown: ".", does: "span after, in the same lane", action: "after", isGlobal: true },
  { keys: ["Enter"], shown: "Enter", does: "a level down: into the longest child", action: "child", isGlobal: true },
  { keys: ["Backspace"], shown: "Backspace", does: "a level up: to the parent", action: "parent", isGlobal: true },
  { keys: ["m"], shown: "m", does: "mark a range: what it is made of (or Shift and drag)", action: "mark", isGlobal: true },
  { keys: ["p"], shown: "p", does: "pin the selected lane to the top", action: "pin", isGlobal: true },
  { keys: ["e"], shown: "e", does: "fold or expand the selected lane", action: "expand", isGlobal: true },
  { keys: ["l"], shown: "l", does: "follow a live run", action: "follow", isGlobal: true },
  { keys: ["/"], shown: "/", does: "search names", action: "search", isGlobal: true },
  { keys: ["n"], shown: "n", does: "next search hit", action: "nextHit", isGlobal: true },
  { keys: ["N"], shown: "N", does: "previous search hit", action: "previousHit", isGlobal: true },
  { keys: ["y"], shown: "y", does: "copy a link to this view", action: "copyLink", isGlobal: true },
  { keys: ["Escape"], shown: "Esc", does: "clear the range, the selection, the search", action: "clear", isGlobal: true },
  { keys: ["?"], shown: "?", does: "this list", action: "help", isGlobal: true },
];

const TYPING = "input, select, textarea, [contenteditable]";
const PRESSING = "button, a, summary, [role=button]";

/** The action of a key press, or null: while typing, with modifiers, or on a button that uses the key. */
export function actionOf(event, isInside) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return null;
  const target = /** @type {Element} */ (event.target);
  if (target.closest?.(TYPING)) return null;
  if (event.key === "Enter" && target.closest?.(PRESSING)) return null;
  const binding = BINDINGS.find(({ keys }) => keys.includes(event.key));
  return binding && (binding.isGlobal || isInside) ? binding.action : null;
}

/** Fill a list of definitions with the keys and what they do. */
export function showHelp(list) {
  const parts = BINDINGS.flatMap(({ shown, does }) => {
    const term = document.createElement("dt");
    term.append(Object.assign(document.createElement("kbd"), { textContent: shown }));
    return [term, Object.assign(document.createElement("dd"), { textContent: does })];
  });
  list.replaceChildren(...parts);
}
