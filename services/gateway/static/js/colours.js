// The colour of a name, such as a layer's type: the same in every chart and timeline.
// A name has a hue by what it does, else by a hash, and a shade by a hash; so it keeps its colour
// whatever else is shown. services/gateway/pages/colours.py says the same; a test compares the two.

/** Three shades of each hue, legible on a light and on a dark page. */
export const HUES = {
  blue: ["#2784d5", "#4ba3f7", "#0865ae"],
  orange: ["#b96a00", "#df8623", "#905203"],
  sky: ["#098db2", "#30add6", "#0b6e8a"],
  teal: ["#029678", "#37b696", "#04755d"],
  pink: ["#c0558d", "#e274ab", "#9e366f"],
  vermillion: ["#d05320", "#f37344", "#a83a05"],
  violet: ["#8f68cb", "#ad87ed", "#724aab"],
  yellow: ["#977e0d", "#ba9c13", "#756208"],
  brown: ["#9b785c", "#bb9679", "#7d5b40"],
  slate: ["#748196", "#929fb5", "#586478"],
};

/** The colour of what is summed up as other, and of names that are empty. */
export const OTHER = "#8a8f98";

/** What a name contains (letters and digits, in lower case) and its hue; the first that fits. */
export const HUE_OF_WORD = [
  ["depthwise", "sky"],
  ["conv", "blue"],
  ["attention", "vermillion"],
  ["sdpa", "vermillion"],
  ["softmax", "yellow"],
  ["norm", "violet"],
  ["gemm", "orange"],
  ["matmul", "orange"],
  ["linear", "orange"],
  ["fullyconnected", "orange"],
  ["dense", "orange"],
  ["addmm", "orange"],
  ["pool", "pink"],
  ["reduce", "pink"],
  ["mean", "pink"],
  ["elu", "teal"],
  ["clip", "teal"],
  ["sigmoid", "teal"],
  ["tanh", "teal"],
  ["swish", "teal"],
  ["erf", "teal"],
  ["activation", "teal"],
  ["embed", "brown"],
  ["gather", "brown"],
  ["resize", "brown"],
  ["upsample", "brown"],
  ["reshape", "slate"],
  ["transpose", "slate"],
  ["permute", "slate"],
  ["concat", "slate"],
  ["flatten", "slate"],
  ["squeeze", "slate"],
  ["slice", "slate"],
  ["split", "slate"],
  ["pad", "slate"],
  ["cast", "slate"],
  ["copy", "slate"],
  ["memcpy", "slate"],
  ["memset", "slate"],
  ["dropout", "slate"],
  ["identity", "slate"],
  ["add", "vermillion"],
  ["mul", "vermillion"],
  ["sub", "vermillion"],
  ["div", "vermillion"],
];

/** Colours of few things side by side, in the order in which they are given. */
export const SERIES = [
  "#2784d5",
  "#b96a00",
  "#029678",
  "#c0558d",
  "#8f68cb",
  "#977e0d",
  "#098db2",
  "#d05320",
  "#9b785c",
  "#748196",
];

const HUE_NAMES = Object.keys(HUES);

/**
 * Return the colour of a name as `#rrggbb`; names that differ in case or signs share it.
 * @param {string} name
 * @returns {string}
 */
export function colourOf(name) {
  const plain = name.toLowerCase().replace(/[^a-z0-9]/g, "");
  if (!plain) return OTHER;
  const number = hashOf(plain);
  const known = HUE_OF_WORD.find(([word]) => plain.includes(word));
  const shades = HUES[known ? known[1] : HUE_NAMES[Math.floor(number / 3) % HUE_NAMES.length]];
  return shades[number % 3];
}

/**
 * Return the 32-bit FNV-1a hash of a text of ASCII letters and digits.
 * @param {string} plain
 * @returns {number}
 */
export function hashOf(plain) {
  let number = 0x811c9dc5;
  for (const letter of plain) number = Math.imul(number ^ letter.charCodeAt(0), 0x01000193) >>> 0;
  return number;
}
