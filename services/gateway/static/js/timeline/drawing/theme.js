/** The colours of the page, as a canvas takes them. */

import { packedStyle } from "./palette.js";

const TOKENS = { ink: "--ink", paper: "--paper", card: "--card", line: "--line", soft: "--soft", accent: "--bad" };

/** The tokens of the style sheet as the browser computes them inside `root` now. @returns {import("./draw.js").Theme} */
export function themeOf(root) {
  const probe = root.appendChild(document.createElement("span"));
  const theme = {};
  for (const [name, token] of Object.entries(TOKENS)) {
    probe.style.color = `var(${token})`;
    theme[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return { ...theme, packed: packedStyle(theme.paper) };
}
