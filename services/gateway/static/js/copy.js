// Copy buttons: `data-copy` names the element whose text is copied.

/**
 * Show the copy buttons below `root`, where the browser can copy; they work by delegation.
 * @param {ParentNode} root
 */
export function showCopyButtons(root) {
  if (!navigator.clipboard) return;
  for (const button of root.querySelectorAll("button[data-copy]")) button.hidden = false;
}

/** Copy on a click anywhere in the page; call it once. */
export function listenForCopies() {
  document.addEventListener("click", async (event) => {
    const button = event.target instanceof Element && event.target.closest("button[data-copy]");
    if (!button) return;
    const source = document.getElementById(button.dataset.copy);
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
}
