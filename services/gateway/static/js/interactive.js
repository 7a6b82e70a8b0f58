// A chart to point at: Vega draws it anew with figures under the pointer. Its 260 kB are loaded with
// the first click. Expressions are interpreted, not compiled: the page's policy has no eval.

import { quantity } from "./quantities.js";

/** Load a classic script. */
function loaded(address) {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = address;
    script.addEventListener("load", resolve);
    script.addEventListener("error", () => reject(new Error(`${address} was not loaded`)));
    document.head.append(script);
  });
}

/** Return a figure of a tooltip as text, in the unit of its column. */
export function figure(value, unit) {
  if (typeof value !== "number") return value === null || value === undefined ? "–" : String(value);
  return quantity(value, unit ?? "1");
}

/** Show the values of a mark beside the pointer; without one, nothing. */
function showTip(tip, units, event, value) {
  const rows = value && typeof value === "object" ? Object.entries(value) : [];
  tip.textContent = rows.map(([name, text]) => `${name}: ${figure(text, units[name])}`).join("\n");
  if (!rows.length) return;
  tip.style.left = `${Math.min(event.clientX + 14, innerWidth - 200)}px`;
  tip.style.top = `${event.clientY + 14}px`;
}

/** Replace the drawing of the page by an interactive one; what goes wrong is said on the button. */
export async function makeInteractive(button) {
  const figureElement = document.getElementById("chart");
  const link = document.querySelector("a[data-specification]");
  const { vega: vegaAddress, vegaLite, interpreter } = button.dataset;
  button.disabled = true;
  button.textContent = "Loading 260 kB …";
  try {
    const address = new URL(link.href);
    address.searchParams.set("theme", "page");
    if (innerWidth < 640) address.searchParams.set("width", "narrow");
    const answer = fetch(address).then((response) => response.json());
    await loaded(vegaAddress);
    await loaded(vegaLite);
    const { expressionInterpreter } = await import(interpreter);
    const specification = await answer;
    const { vega, vegaLite: compiler } = window;
    const runtime = vega.parse(compiler.compile(specification).spec, null, { ast: true });
    const view = new vega.View(runtime, { renderer: "svg", expr: expressionInterpreter });
    const units = specification.usermeta?.units ?? {};
    const tip = document.getElementById("tip");
    view.tooltip((_, event, __, value) => showTip(tip, units, event, value));
    const place = document.createElement("div");
    place.className = "vega";
    await view.initialize(place).hover().runAsync();
    figureElement.replaceChildren(place);
    button.hidden = true;
  } catch (error) {
    button.textContent = `Not interactive: ${error.message}`;
  }
}
