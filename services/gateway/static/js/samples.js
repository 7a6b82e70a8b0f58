// Files of this machine as a dataset in the request itself, as `mlscope run --dataset` sends them.

/** Most bytes of files in one request; base64 makes them a third longer. */
export const MOST_BYTES = 1 << 20;

const MODALITIES = { image: "image", audio: "audio", text: "text" };

/**
 * Return the manifest of a dataset of `files`, as YAML (JSON is YAML).
 * @param {Iterable<File>} files
 * @returns {Promise<string>}
 * @throws {Error} when they are too large together
 */
export async function datasetOf(files) {
  const all = [...files];
  const size = all.reduce((sum, file) => sum + file.size, 0);
  if (size > MOST_BYTES) {
    throw new Error(`${size} bytes of files; up to ${MOST_BYTES} travel in a request`);
  }
  const samples = await Promise.all(all.map(async (file) => ({ content: await base64Of(file) })));
  const kind = (all[0]?.type ?? "").split("/")[0];
  const modality = MODALITIES[kind] ?? "raw";
  return JSON.stringify({ kind: "dataset", name: "uploads", modality, samples }, null, 1);
}

/**
 * Return the bytes of a file as base64.
 * @param {File} file
 */
export async function base64Of(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}
