// The page of one analysis: keys to the analyses beside it, and a filter without a button.

import { makeInteractive } from "./interactive.js";

/** Tell whether a key belongs to a field that is being typed in. */
function isTyping(event) {
  return event.target instanceof Element && event.target.closest("input, select, textarea, [contenteditable]");
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return;
  const relation = { "[": "prev", "]": "next" }[event.key];
  const link = relation && document.querySelector(`.around a[rel="${relation}"]`);
  if (link instanceof HTMLAnchorElement) link.click();
});

document.querySelector("#analysis .search")?.addEventListener("change", (event) => {
  if (event.target instanceof HTMLSelectElement) event.target.form?.requestSubmit();
});

const button = document.getElementById("interactive");
if (button instanceof HTMLButtonElement && document.querySelector("#chart svg")) {
  button.hidden = false;
  button.addEventListener("click", () => makeInteractive(button), { once: true });
}
