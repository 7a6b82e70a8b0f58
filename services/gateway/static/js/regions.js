// A form that checks itself while a person types: the server renders the page again, and the
// regions of it that changed are replaced. What is typed, focused and opened stays.

/**
 * Return a function that runs `work` once, a while after its last call.
 * @param {() => void} work
 * @param {number} pauseMs
 */
export function debounced(work, pauseMs) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(work, pauseMs);
  };
}

/**
 * Replace the regions of `page` by those of `fresh`; one in which a person types stays.
 * @param {ParentNode} page
 * @param {ParentNode} fresh
 * @returns {string[]} the names of the regions that were replaced
 */
export function replaceRegions(page, fresh) {
  const replaced = [];
  for (const region of page.querySelectorAll("[data-region]")) {
    const name = region.dataset.region;
    const other = fresh.querySelector(`[data-region="${name}"]`);
    if (!other || other.innerHTML === region.innerHTML || isTypedIn(region)) continue;
    const focused = region.contains(document.activeElement) ? document.activeElement.id : "";
    const position = scrollOf(region);
    const open = openDetails(region);
    region.replaceChildren(...other.childNodes);
    for (const details of region.querySelectorAll("details[data-keep]")) {
      if (details.dataset.keep in open) details.open = open[details.dataset.keep];
    }
    for (const [place, top] of position) {
      const list = region.querySelectorAll(":scope > *")[place];
      if (list) list.scrollTop = top;
    }
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
    replaced.push(name);
  }
  return replaced;
}

/** Tell whether a person types in a region: its choices are replaced, its texts are not. */
function isTypedIn(region) {
  const active = document.activeElement;
  if (!region.contains(active)) return false;
  return active.matches("textarea, select, input:not([type=checkbox], [type=radio])");
}

function scrollOf(region) {
  return [...region.children].map((child, place) => [place, child.scrollTop]).filter((one) => one[1]);
}

function openDetails(region) {
  const all = [...region.querySelectorAll("details[data-keep]")];
  return Object.fromEntries(all.map((details) => [details.dataset.keep, details.open]));
}
