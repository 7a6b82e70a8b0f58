// The page of datasets: a folder or file of this machine becomes one that a request can use.

import { noteOf, sendDataset } from "./sending.js";

const section = document.getElementById("own");
const status = section.querySelector("[role=status]");
const start = section.querySelector("a.button");

let newest = 0;

/** Send what was chosen, and say what it is, unless something else was chosen meanwhile. */
async function send(input) {
  const number = ++newest;
  const say = (note) => { if (number === newest) status.textContent = note; };
  start.hidden = true;
  try {
    const answer = await sendDataset([...input.files], say);
    if (number !== newest) return;
    say(`${noteOf(answer)}.`);
    start.href = `/new?${new URLSearchParams({ dataset_manifest: answer.text })}`;
    start.hidden = false;
  } catch (error) {
    say(error.message);
  }
  // The same files can be chosen again once what was wrong is mended.
  input.value = "";
}

section.addEventListener("change", (event) => {
  if (event.target.files.length) send(event.target);
});
for (const element of section.querySelectorAll(".file")) element.hidden = false;
