/** Spans of an Arrow stream as a batch of the store: typed arrays, copied only where the type differs. */

import "../../../vendor/flechette.min.js";

const WIDE = new Set(["id", "parent", "correlation"]);
const PLAIN = ["lane", "depth", "start", "duration", "query", "kind", "count", "busy", "value"];

/** 64-bit integers as numbers; exact up to 2^53. */
function numbersOf(values) {
  if (!(values instanceof BigInt64Array)) return values;
  const halves = new Int32Array(values.buffer, values.byteOffset, values.length * 2);
  const numbers = new Float64Array(values.length);
  for (let at = 0; at < numbers.length; at += 1) numbers[at] = halves[2 * at + 1] * 0x1_0000_0000 + (halves[2 * at] >>> 0);
  return numbers;
}

/** Join arrays of one type. */
function joined(parts) {
  if (parts.length === 1) return parts[0];
  const whole = new parts[0].constructor(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Values of a column; missing ones are what the sender left in their place. */
function valuesOf(column) {
  return numbersOf(joined(column.data.map((part) => part.values.subarray(0, part.length))));
}

/** The names of a dictionary column as numbers of the store. */
function namesOf(column, nameOf) {
  const parts = column.data.map((part) => {
    const texts = part.dictionary;
    const numbers = new Uint32Array(texts.length);
    for (let at = 0; at < texts.length; at += 1) numbers[at] = nameOf(texts.at(at) ?? "");
    const names = new Uint32Array(part.length);
    for (let at = 0; at < part.length; at += 1) names[at] = numbers[part.values[at]];
    return names;
  });
  return joined(parts);
}

/**
 * Decode an Arrow stream. `nameOf` gives a text its number in the store.
 * @param {ArrayBuffer} buffer @param {(text: string) => number} nameOf
 * @returns {import("./store.js").Batch}
 */
export function batchOf(buffer, nameOf) {
  const table = globalThis.fl.tableFromIPC(new Uint8Array(buffer), { useBigInt: true });
  const batch = { size: table.numRows };
  if (table.numRows === 0) return batch;
  for (const name of [...PLAIN, ...WIDE]) {
    const column = table.getChild(name);
    if (column) batch[name] = valuesOf(column);
  }
  batch.name = namesOf(table.getChild("name"), nameOf);
  return batch;
}
