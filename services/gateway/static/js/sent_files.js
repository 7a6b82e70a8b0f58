// Files of this machine that a model's manifest names, sent to where agents find them.

/**
 * Send files, and return the manifest's text with their addresses, and a note of what is left over.
 * @param {string} text the manifest as it is typed
 * @param {Iterable<File>} files
 * @param {(note: string) => void} say what is being done
 * @returns {Promise<{text: string, note: string}>}
 * @throws {Error} when the manifest has faults, or a file is refused
 */
export async function sendFiles(text, files, say) {
  await checked(text, {});
  const sent = {};
  for (const file of files) {
    say(`sending ${file.name} …`);
    const headers = { "Content-Type": "application/octet-stream" };
    sent[file.name] = await answerOf(await fetch(`/api/files?name=${encodeURIComponent(file.name)}`, { method: "POST", headers, body: file }));
  }
  const { text: placed, unused, lacking } = await checked(text, sent);
  const notes = [`${Object.keys(sent).length} sent, kept for a day`];
  if (unused.length) notes.push(`not named in the manifest: ${unused.join(", ")}`);
  if (lacking.length) notes.push(`still to send: ${lacking.join(", ")}`);
  return { text: placed, note: notes.join("; ") };
}

async function checked(text, files) {
  const headers = { "Content-Type": "application/json" };
  const body = JSON.stringify({ text, kind: "model", files });
  const answer = await answerOf(await fetch("/api/manifests/check", { method: "POST", headers, body }));
  if (answer.faults.length) throw new Error("Correct the manifest first, then choose its files.");
  return answer;
}

async function answerOf(response) {
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.message);
  return answer;
}
