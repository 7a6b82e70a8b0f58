// Files of this machine packed as a tar archive: a list of parts, whose bytes are read as they are sent.

const BLOCK_BYTES = 512;
const MOST_NAME_BYTES = 100;
const MOST_OCTAL = 0o77777777777;
const encoder = new TextEncoder();

/**
 * Return an archive of files, which is not read into memory.
 * @param {Iterable<[string, Blob]>} members names with `/`, and contents
 * @returns {Blob}
 */
export function tarOf(members) {
  const parts = [];
  for (const [name, body] of members) {
    const fields = {};
    if (encoder.encode(name).length > MOST_NAME_BYTES || /[^\x20-\x7e]/.test(name)) fields.path = name;
    if (body.size > MOST_OCTAL) fields.size = body.size;
    if (Object.keys(fields).length) {
      const records = encoder.encode(Object.entries(fields).map(record).join(""));
      parts.push(header("pax", records.length, "x"), records, padding(records.length));
    }
    parts.push(header(fields.path ? "long" : name, body.size, "0"), body, padding(body.size));
  }
  return new Blob([...parts, new Uint8Array(2 * BLOCK_BYTES)], { type: "application/octet-stream" });
}

/** A record of an extended header: its own length, its key and its value. */
function record([key, value]) {
  const rest = ` ${key}=${value}\n`;
  const size = encoder.encode(rest).length;
  let length = size + 1;
  while (String(length).length + size !== length) length = String(length).length + size;
  return `${length}${rest}`;
}

/** A member's header, of the form POSIX.1-1988. */
function header(name, size, type) {
  const block = new Uint8Array(BLOCK_BYTES);
  const put = (text, offset) => block.set(encoder.encode(text), offset);
  put(name, 0);
  put("0000644\0", 100);
  put("0000000\0", 108);
  put("0000000\0", 116);
  put(`${Math.min(size, MOST_OCTAL).toString(8).padStart(11, "0")}\0`, 124);
  put("00000000000\0", 136);
  put("        ", 148);
  put(type, 156);
  put("ustar\x0000", 257);
  const sum = block.reduce((total, byte) => total + byte, 0);
  put(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return block;
}

function padding(size) {
  return new Uint8Array((BLOCK_BYTES - (size % BLOCK_BYTES)) % BLOCK_BYTES);
}
