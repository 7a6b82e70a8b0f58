/** Where lanes stand on the screen. Pure; lengths are CSS pixels. */

export const ROW = 18;
export const MOST_ROW = 36;
export const FOLDED = 8;
export const COUNTER = 26;
export const HEADING = 24;
export const LANE_LEAST = 24;
const PADDING = 3;

/**
 * What the server says of a lane.
 * @typedef {{lane: number, key: string, group: string, level: string, title: string, thread?: number,
 *   device?: number, stream?: number, depth_max: number, spans: number}} Lane
 * @typedef {{depth: number, y: number, height: number}} Line
 * @typedef {{kind: "group" | "lane", key: string, title: string, y: number, height: number,
 *   isFolded: boolean, isPinned: boolean, lanes: Lane[], lane: Lane | null, lines: Line[]}} Block
 * @typedef {{folded: Set<string>, pinned: Set<string>}} Folding
 */

const GROUP_TITLES = { load: "Load", host: "Host", counter: "Counters" };

/** The group that a lane stands in: each device has its own. */
export function groupOf(lane) {
  return lane.group === "device" ? `device ${lane.device ?? 0}` : lane.group;
}

function titleOf(group) {
  return GROUP_TITLES[group] ?? group.replace(/^d/, "D");
}

const GROUPS = ["load", "host", "device", "counter"];
const LEVELS = ["query", "late", "queued", "application", "model", "layer", "library", "system"];

/** Lanes in the order in which they stand: live ones come in the order of their first spans. */
export function inOrder(lanes) {
  const rank = (lane) => [GROUPS.indexOf(lane.group), lane.device ?? 0, LEVELS.indexOf(lane.level), lane.thread ?? lane.stream ?? 0];
  const ranked = lanes.map((lane) => ({ lane, rank: rank(lane) }));
  ranked.sort((a, b) => a.rank.map((part, at) => part - b.rank[at]).find((difference) => difference !== 0) ?? 0);
  return ranked.map(({ lane }) => lane);
}

/** The title of a lane below the heading of its group, which it need not repeat. */
export function shortTitle(lane, isOnlyThread) {
  if (lane.group === "device") return lane.title.replace(/^device \d+ · /, "");
  return lane.group === "host" && isOnlyThread ? lane.level : lane.title;
}

/** Lanes that are shown folded at first: all but the outermost row, where there are many. */
export function foldedAtFirst(lanes) {
  const many = lanes.length > 24;
  return lanes.filter((lane) => many && lane.level === "system").map((lane) => lane.key);
}

/** The lines of a lane: one for each nesting depth, or one low line. */
function linesOf(lane, isFolded, y, row) {
  if (lane.group === "counter") return [{ depth: 0, y: y + PADDING, height: isFolded ? FOLDED : COUNTER }];
  if (isFolded) return [{ depth: 0, y: y + PADDING, height: FOLDED }];
  const height = lane.group === "load" ? ROW : row;
  return Array.from({ length: lane.depth_max + 1 }, (_, depth) => ({ depth, y: y + PADDING + depth * height, height }));
}

function laneBlock(lane, folding, y, row, title = lane.title) {
  const isFolded = folding.folded.has(lane.key);
  const lines = linesOf(lane, isFolded, y, row);
  const used = lines.at(-1).y + lines.at(-1).height + PADDING - y;
  const height = Math.max(used, LANE_LEAST);
  const isPinned = folding.pinned.has(lane.key);
  return { kind: "lane", key: lane.key, title, y, height, isFolded, isPinned, lanes: [lane], lane, lines };
}

/**
 * Stack lanes below each other: pinned ones first, then each group below its heading. Rows are higher where
 * `room`, the height of the screen for them, is more than they need.
 * @param {Lane[]} lanes @param {Folding} folding @param {number} room
 * @returns {{blocks: Block[], height: number, pinnedHeight: number}}
 */
export function layoutOf(lanes, folding, room = 0) {
  const least = stacked(lanes, folding, ROW);
  const grown = least.blocks.filter(({ lane }) => lane && lane.group !== "load");
  const rows = grown.reduce((sum, { lines }) => sum + lines.filter(({ height }) => height === ROW).length, 0);
  const spare = Math.floor((room - least.height) / rows);
  return rows && spare > 0 ? stacked(lanes, folding, Math.min(ROW + spare, MOST_ROW)) : least;
}

function stacked(lanes, folding, row) {
  const blocks = [];
  let y = 0;
  const add = (block) => {
    blocks.push(block);
    y += block.height;
  };
  for (const lane of lanes) if (folding.pinned.has(lane.key)) add(laneBlock(lane, folding, y, row));
  const pinnedHeight = y;
  const groups = Map.groupBy ? Map.groupBy(lanes, groupOf) : grouped(lanes);
  for (const [group, all] of groups) {
    const isFolded = folding.folded.has(group);
    const own = all.filter((lane) => !folding.pinned.has(lane.key));
    if (own.length === 0) continue;
    add({ kind: "group", key: group, title: titleOf(group), y, height: HEADING, isFolded, isPinned: false, lanes: own, lane: null, lines: [] });
    const isOnlyThread = new Set(all.map((lane) => lane.thread)).size === 1;
    if (!isFolded) for (const lane of own) add(laneBlock(lane, folding, y, row, shortTitle(lane, isOnlyThread)));
  }
  return { blocks, height: y, pinnedHeight };
}

function grouped(lanes) {
  const groups = new Map();
  for (const lane of lanes) {
    const group = groupOf(lane);
    if (!groups.has(group)) groups.set(group, []);
    groups.get(group).push(lane);
  }
  return groups;
}

/** Where the top of a block is on the screen: pinned blocks do not scroll. */
export function topOf(block, scrolled) {
  return block.isPinned ? block.y : block.y - scrolled;
}

/** The block and line at a height of the screen. @returns {{block: Block, line: Line | null} | null} */
export function blockAt(layout, y, scrolled) {
  const at = y < layout.pinnedHeight ? y : y + scrolled;
  const block = layout.blocks.find((candidate) => at >= candidate.y && at < candidate.y + candidate.height);
  if (!block) return null;
  const line = block.lines.find((candidate) => at >= candidate.y && at < candidate.y + candidate.height);
  return { block, line: line ?? null };
}

/** The block that shows a lane, null while its group is folded. */
export function blockOf(layout, lane) {
  return layout.blocks.find((block) => block.lane?.lane === lane) ?? null;
}
