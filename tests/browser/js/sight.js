/** Pretends that the page is hidden, or in sight again. */

function show(isHidden) {
  Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}

export const hidden = () => show(true);
export const seen = () => show(false);
