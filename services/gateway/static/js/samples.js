// Files of this machine as a dataset in the request itself, as `mlscope run --dataset` sends them.

/** Bytes of files in one request at most; base64 makes them a third longer. */
const MOST_BYTES = 1 << 20;

const MODALITIES = { image: "image", audio: "audio", text: "text" };

/**
 * Tell whether files are small enough to travel in a request.
 * @param {File[]} files
 */
export function isSmall(files) {
  return files.reduce((sum, file) => sum + file.size, 0) <= MOST_BYTES;
}

/**
 * Return the manifest of a dataset of `files`, as YAML (JSON is YAML).
 * @param {File[]} files
 * @returns {Promise<string>}
 */
export async function datasetOf(files) {
  const samples = await Promise.all(files.map(async (file) => ({ content: await base64Of(file) })));
  const kind = (files[0]?.type ?? "").split("/")[0];
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
