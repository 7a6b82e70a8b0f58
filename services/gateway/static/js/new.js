// The form that starts evaluations: asks the server what would happen after each change, reads
// files into its fields, and moves through long lists by arrow keys.

import { listenForCopies, showCopyButtons } from "./copy.js";
import { debounced, replaceRegions } from "./regions.js";
import { isPacked, noteOf, sendDataset } from "./datasets/sending.js";
import { datasetOf, isSmall } from "./samples.js";
import { sendFiles } from "./sent_files.js";

const PAUSE_MS = 250;
const form = /** @type {HTMLFormElement} */ (document.getElementById("new"));
let asking = new AbortController();
/** Readings of files that have not ended: a request without what they read is another one. */
const readings = new Map();

/** Ask the server for the page of what is typed, and show its answer. */
async function check() {
  asking.abort();
  asking = new AbortController();
  const body = new URLSearchParams(new FormData(form));
  body.set("action", "check");
  form.setAttribute("aria-busy", "true");
  try {
    // Not form.action: the buttons have that name.
    const response = await fetch(form.getAttribute("action"), { method: "POST", body, signal: asking.signal });
    show(new DOMParser().parseFromString(await response.text(), "text/html"));
    rememberAddress(body);
  } catch (error) {
    if (error.name === "AbortError") return;
    say("The gateway does not answer; what you typed stays here. Check again in a while.");
  }
  form.removeAttribute("aria-busy");
}

function show(fresh) {
  replaceRegions(form, fresh);
  markFaults(fresh);
  enhance();
}

/** Show what is wrong beside each field outside of the regions. */
function markFaults(fresh) {
  for (const field of form.querySelectorAll("input[name], select[name], textarea[name]")) {
    if (!field.id) continue;
    const other = fresh.getElementById(field.id);
    const isWrong = other?.hasAttribute("aria-invalid") ?? false;
    field.toggleAttribute("aria-invalid", isWrong);
    if (isWrong) field.setAttribute("aria-invalid", "true");
    if (field.closest("[data-region]") && !field.matches(":focus")) continue;
    const note = other?.parentElement.querySelector(".wrong");
    const own = field.parentElement.querySelector(":scope > .wrong");
    if (own) own.remove();
    if (note && isWrong) field.after(note);
  }
}

function say(text) {
  const note = Object.assign(document.createElement("p"), { className: "wrong", textContent: text });
  form.querySelector("[data-region=preview]").replaceChildren(note);
}

/** Keep the request in the address, as far as an address can hold it. */
function rememberAddress(body) {
  const query = new URLSearchParams();
  for (const [name, value] of body) {
    if (value && !["nonce", "action", "manifest", "dataset_manifest"].includes(name)) {
      query.append(name, value);
    }
  }
  const text = query.toString();
  if (text.length < 4000) history.replaceState(null, "", `/new?${text.replace("origin=", "from=")}`);
}

/** What only a script can do. */
function enhance() {
  showCopyButtons(form);
  form.querySelector(".check").hidden = true;
  for (const element of form.querySelectorAll(".file")) element.hidden = false;
  for (const button of form.querySelectorAll("button[value=start]")) button.disabled = readings.size > 0;
  const boxes = [...form.querySelectorAll(".models-list input")];
  const first = boxes.find((box) => box.checked) ?? boxes[0];
  for (const box of boxes) box.tabIndex = box === first ? 0 : -1;
}

/** Move through the models by arrow keys: the list is one stop of the Tab key. */
function moveInList(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const list = event.target instanceof Element && event.target.closest(".models-list");
  if (!step || !list) return;
  const boxes = [...list.querySelectorAll("input")];
  const next = boxes[boxes.indexOf(event.target) + step];
  if (!next) return;
  event.preventDefault();
  event.target.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

/** Read chosen files into a text field; of several datasets the newest is written. Nothing starts meanwhile. */
async function readFiles(input) {
  const { into: text, samples, send } = input.dataset;
  const files = [...input.files];
  const into = document.getElementById(text ?? samples ?? send);
  const status = input.closest("p")?.querySelector("[role=status]");
  const reading = Symbol(into.id);
  const place = samples ? into : reading;
  const isNewest = () => readings.get(place) === reading;
  const say = (note) => { if (status && isNewest()) status.textContent = note; };
  readings.set(place, reading);
  enhance();
  try {
    if (text) into.value = await files[0].text();
    say(send ? await sendFiles(into, files, say) : samples ? await readDataset(into, files, say, isNewest) : `${files.length} read`);
    checkSoon();
  } catch (error) {
    say(error.message);
  }
  if (isNewest()) readings.delete(place);
  enhance();
  // The same files can be chosen again once what was wrong is mended.
  input.value = "";
}

/**
 * Put the manifest of a dataset into a field, and return a note of it: a few small files travel in the request.
 *
 * What is typed there meanwhile stays, and so does what was chosen later (`isNewest`).
 */
async function readDataset(into, files, say, isNewest) {
  const isSent = isPacked(files) || files[0]?.webkitRelativePath || !isSmall(files);
  const typed = into.value;
  const answer = isSent ? await sendDataset(files, say) : { text: await datasetOf(files) };
  if (!isNewest()) return "";
  const note = isSent ? noteOf(answer) : `${files.length} read`;
  if (into.value !== typed) return `${note}; the manifest that you typed stays`;
  into.value = answer.text;
  return note;
}

const checkSoon = debounced(check, PAUSE_MS);

form.addEventListener("input", (event) => {
  if (event.target.type === "file") readFiles(event.target);
  else checkSoon();
});
form.addEventListener("keydown", moveInList);
form.addEventListener("keydown", (event) => {
  // Enter in a text field checks; only the button starts.
  if (event.key === "Enter" && event.target.matches("input:not([type=checkbox], [type=radio])")) {
    event.preventDefault();
    check();
  }
});
listenForCopies();
enhance();
