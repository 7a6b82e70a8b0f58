import { equal } from "/js/check.js";
import { batchOf } from "/static/js/timeline/data/arrow.js";

/** An Arrow stream of three spans, made by the same library. */
function stream() {
  const { columnFromArray, dictionary, float64, int64, tableFromColumns, tableToIPC, uint16, utf8 } = globalThis.fl;
  const column = (values, type) => columnFromArray(values, type);
  const table = tableFromColumns({
    lane: column([0, 0, 1], uint16()), start: column([1.5, 2.5, 3.5], float64()), duration: column([1, 1, 1], float64()),
    name: column(["conv", "relu", "conv"], dictionary(utf8())), id: column([1n, -1n, 9007199254740991n], int64()),
  });
  return tableToIPC(table, { format: "stream" });
}

export function test_columns_of_an_arrow_stream_become_a_batch() {
  const texts = ["known"];
  const nameOf = (text) => (texts.includes(text) ? texts.indexOf(text) : texts.push(text) - 1);
  const bytes = stream();
  const batch = batchOf(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength), nameOf);
  equal([batch.size, batch.lane, batch.start], [3, [0, 0, 1], [1.5, 2.5, 3.5]]);
  equal(batch.id, [1, -1, 9007199254740991]);
  equal([...batch.name].map((name) => texts[name]), ["conv", "relu", "conv"]);
  equal(batch.depth, undefined);
}
