// A dataset of this machine, sent to where agents find it: a packed file as it is, others as a tar.

import { tarOf } from "./tar.js";

const PACKED = /\.(zip|tar|tgz|tbz2|txz|tar\.(gz|bz2|xz)|npy|npz)$/i;

/** Tell whether chosen files are one that is a dataset by itself. */
export function isPacked(files) {
  return files.length === 1 && PACKED.test(files[0].name);
}

/**
 * Send files as one dataset; return the gateway's answer, which has its manifest.
 * @param {File[]} files one packed file, or the files of a folder
 * @param {(note: string) => void} say what is being done
 * @returns {Promise<{name: string, text: string, samples: number, class_count: number, note: string}>}
 * @throws {Error} when there are none, or they are refused
 */
export async function sendDataset(files, say) {
  const [name, body] = isPacked(files) ? [files[0].name, files[0]] : packed(files);
  return await post(`/api/datasets?name=${encodeURIComponent(name)}`, body, (sent) => {
    const share = body.size ? Math.floor((100 * sent) / body.size) : 100;
    say(share < 100 ? `sending ${name}, ${share}% …` : `checking ${name} …`);
  });
}

/** What a person calls a dataset that was sent. */
export function noteOf({ name, samples, class_count: classes, note }) {
  const count = samples ? `${samples} ${samples === 1 ? "sample" : "samples"}` : "samples";
  const kinds = classes ? ` in ${classes} ${classes === 1 ? "class" : "classes"}` : "";
  return `${name}: ${count}${kinds}, kept for a day${note ? `; ${note}` : ""}`;
}

function packed(files) {
  const members = [];
  for (const file of files) {
    const name = file.webkitRelativePath || file.name;
    const isHidden = name.split("/").some((part) => part.startsWith(".") || part === "__MACOSX");
    if (!isHidden) members.push([name, file]);
  }
  if (!members.length) throw new Error("There are no files in it.");
  const folder = files[0].webkitRelativePath.split("/")[0];
  return [`${folder || "files"}.tar`, tarOf(members)];
}

/** Send a body, with its progress, which `fetch` does not tell. */
function post(address, body, progress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", address);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.responseType = "json";
    request.upload.onprogress = (event) => progress(event.loaded);
    request.onerror = () => reject(new Error("The gateway does not answer, or a file changed meanwhile; choose it again."));
    request.onload = () => {
      if (request.status === 201) resolve(request.response);
      else reject(new Error(request.response?.message?.replace(/^body: /, "") ?? `The gateway answered ${request.status}.`));
    };
    request.send(body);
  });
}
