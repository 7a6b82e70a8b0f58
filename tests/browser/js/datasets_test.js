import { noteOf } from "/static/js/datasets/sending.js";
import { tarOf } from "/static/js/datasets/tar.js";
import { equal } from "/js/check.js";

const text = (bytes, from, to) => new TextDecoder().decode(bytes.slice(from, to)).replace(/\0.*$/s, "");

async function bytesOf(members) {
  return new Uint8Array(await tarOf(members).arrayBuffer());
}

export async function test_a_member_is_a_header_and_whole_blocks() {
  const bytes = await bytesOf([["a/b.txt", new Blob(["hello"])]]);
  equal(bytes.length, 512 * 4);
  equal([text(bytes, 0, 100), text(bytes, 124, 136), text(bytes, 257, 263)], ["a/b.txt", "00000000005", "ustar"]);
  equal(text(bytes, 512, 1024), "hello");
}

export async function test_the_checksum_counts_its_own_field_as_spaces() {
  const bytes = await bytesOf([["a", new Blob(["x"])]]);
  const stored = parseInt(text(bytes, 148, 156), 8);
  const header = bytes.slice(0, 512).fill(32, 148, 156);
  equal(stored, header.reduce((sum, byte) => sum + byte, 0));
}

export async function test_a_long_or_foreign_name_has_a_record_of_its_own_length() {
  const name = `${"ü/".repeat(60)}x.jpg`;
  const bytes = await bytesOf([[name, new Blob([])]]);
  equal([text(bytes, 156, 157), text(bytes, 1024, 1124)], ["x", "long"]);
  const size = parseInt(text(bytes, 124, 136), 8);
  equal(new TextDecoder().decode(bytes.slice(512, 512 + size)), `${size} path=${name}\n`);
}

export function test_a_note_counts_all_classes_and_says_what_is_none() {
  const answer = { name: "a", samples: 1, classes: ["x"], class_count: 1001, note: "" };
  equal(noteOf(answer), "a: 1 sample in 1001 classes, kept for a day");
  equal(noteOf({ ...answer, class_count: 0, note: "no classes" }), "a: 1 sample, kept for a day; no classes");
}
