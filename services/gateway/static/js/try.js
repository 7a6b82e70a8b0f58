// Sends files to the models that are chosen, and shows their answers side by side.

import { percent } from "./quantities.js";
import { base64Of } from "./samples.js";

const MOST_BYTES = 2_000_000;
const MOST_ANSWERS = 5;
const form = /** @type {HTMLFormElement} */ (document.getElementById("try"));
const status = document.getElementById("try-status");

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    await predict([...chosenFiles(), ...chosenSamples()]);
  } catch (error) {
    status.textContent = error.message;
  }
  button.disabled = false;
});

/** Return the files and the text of the form, as files. Throws an Error that says what is wrong. */
function chosenFiles() {
  const files = [...form.elements.files.files];
  const text = form.elements.text?.value.trim();
  if (text) files.push(new File([text], "your text.txt", { type: "text/plain" }));
  const large = files.find((file) => file.size > MOST_BYTES);
  if (large) throw new Error(`${large.name} has ${large.size} bytes; up to ${MOST_BYTES}`);
  return files;
}

/** Return the samples and the address of the form: each a name, and what the request says of it. */
function chosenSamples() {
  const samples = [...form.querySelectorAll("[name=sample]:checked")].map((box) => ({
    name: box.dataset.name,
    type: "",
    picture: box.parentElement.querySelector("img")?.src,
    sample: { dataset: box.dataset.dataset, sample: Number(box.value) },
  }));
  const address = form.elements.address.value.trim();
  if (address) samples.push({ name: address, type: "", sample: { address } });
  return samples;
}

/** Return the options that are chosen in a list of the form, which may be missing. */
function chosen(name) {
  return [...(form.elements[name]?.selectedOptions ?? [])];
}

async function predict(files) {
  if (!files.length) throw new Error("Choose a file, an address or a sample first.");
  if (files.length > Number(form.dataset.most)) {
    throw new Error(`${files.length} files; up to ${form.dataset.most} at once`);
  }
  const models = [form.dataset.model, ...chosen("other").map((option) => option.value)];
  const agents = chosen("agent").map((option) => option.value);
  const places = agents.length ? agents : [""];
  const asked = models.flatMap((model) => places.map((agent) => ({ model, agent })));
  const rows = files.map(rowOf);
  document.getElementById("answers").replaceChildren(...rows.map((row) => row.element));
  const content = { files: {}, samples: {} };
  for (const [place, file] of files.entries()) {
    const key = keyOf(place, file);
    if (file.sample) content.samples[key] = file.sample;
    else content.files[key] = await base64Of(file);
  }
  let waiting = asked.length;
  status.textContent = `${waiting} waiting`;
  await Promise.all(
    asked.map(async ({ model, agent }) => {
      const answer = await ask({ model, ...content, ...(agent ? { agents: [agent] } : {}) });
      const name = agent ? `${model} on ${agent}` : model;
      rows.forEach((row, place) => row.add(name, answer, keyOf(place, files[place])));
      waiting -= 1;
      status.textContent = waiting ? `${waiting} waiting` : "";
    }),
  );
}

/** Two files may have the same name. */
function keyOf(place, file) {
  return `${place + 1} ${file.name}`;
}

async function ask(request) {
  try {
    const response = await fetch("/api/predict", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(request),
    });
    const body = await response.json();
    return response.ok ? body : { message: body.message };
  } catch {
    return { message: "The gateway does not answer." };
  }
}

/** Return the row of a file: its picture, and a place for the answers of each model. */
function rowOf(file) {
  const element = make("section", "asked");
  const shown = make("figure");
  const source = file.type.startsWith("image/") ? URL.createObjectURL(file) : file.picture;
  if (source) {
    const picture = make("img");
    picture.src = source;
    picture.alt = file.name;
    shown.append(picture);
  }
  shown.append(make("figcaption", "", file.name));
  const models = make("div", "models");
  element.append(shown, models);
  return { element, add: (model, answer, key) => models.append(cardOf(model, answer, key)) };
}

function cardOf(model, answer, key) {
  const card = make("div");
  card.append(make("h3", "", model));
  const mine = answer.predictions?.find((one) => one.file === key);
  const error = answer.message ?? mine?.error;
  if (error) card.append(make("p", "note", error));
  else if (!mine?.answers.length) card.append(make("p", "soft", "Nothing was found."));
  const list = make("ol");
  for (const line of mine?.answers.slice(0, MOST_ANSWERS) ?? []) list.append(lineOf(line));
  card.append(list);
  return card;
}

function lineOf({ answer, probability, detail }) {
  const line = make("li");
  const hasShare = typeof probability === "number";
  line.append(make("span", "", answer));
  line.append(make("span", "soft", hasShare ? percent(probability) : detail));
  if (hasShare) {
    const meter = make("meter");
    meter.value = probability;
    meter.setAttribute("aria-label", answer);
    line.append(meter);
  }
  return line;
}

function make(name, className = "", text = "") {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}
