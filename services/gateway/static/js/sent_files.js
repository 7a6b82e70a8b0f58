// Files of this machine that a model's manifest names, sent to where agents find them.

/**
 * Send files, put their addresses into the manifest's field, and return a note of what is left over.
 *
 * What is typed while they are sent stays: the addresses go into the text as it is then.
 * @param {HTMLTextAreaElement} field the manifest as it is typed
 * @param {Iterable<File>} files
 * @param {(note: string) => void} say what is being done
 * @returns {Promise<string>}
 * @throws {Error} when the manifest has faults, or a file is refused
 */
export async function sendFiles(field, files, say) {
  await checked(field.value, {});
  const sent = {};
  for (const file of files) {
    say(`sending ${file.name} …`);
    const headers = { "Content-Type": "application/octet-stream" };
    sent[file.name] = await answerOf(await fetch(`/api/files?name=${encodeURIComponent(file.name)}`, { method: "POST", headers, body: file }));
  }
  let text, answer;
  do {
    text = field.value;
    answer = await checked(text, sent);
  } while (field.value !== text);
  field.value = answer.text;
  const { unused, lacking } = answer;
  const notes = [`${Object.keys(sent).length} sent, kept for a day`];
  if (unused.length) notes.push(`not named in the manifest: ${unused.join(", ")}`);
  if (lacking.length) notes.push(`still to send: ${lacking.join(", ")}`);
  return notes.join("; ");
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
