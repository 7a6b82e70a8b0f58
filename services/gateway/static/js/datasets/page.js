// The page of datasets: a folder or file of this machine becomes one that a request can use.

import { noteOf, sendDataset } from "./sending.js";

const section = document.getElementById("own");
const status = section.querySelector("[role=status]");
const start = section.querySelector("a.button");

/** Send what was chosen, and say what it is. */
async function send(input) {
  start.hidden = true;
  try {
    const answer = await sendDataset([...input.files], (doing) => { status.textContent = doing; });
    status.textContent = `${noteOf(answer)}.`;
    start.href = `/new?${new URLSearchParams({ dataset_manifest: answer.text })}`;
    start.hidden = false;
  } catch (error) {
    status.textContent = error.message;
  }
  // The same files can be chosen again once what was wrong is mended.
  input.value = "";
}

section.addEventListener("change", (event) => {
  if (event.target.files.length) send(event.target);
});
for (const element of section.querySelectorAll(".file")) element.hidden = false;
