/** Opens a run's trace in the embedded Perfetto UI: asks until it answers, then hands the file over. */

const PING_MS = 100;
const GIVE_UP_MS = 30_000;

const frame = /** @type {HTMLIFrameElement} */ (document.getElementById("perfetto"));
const state = /** @type {HTMLElement} */ (document.getElementById("perfetto-state"));

/** @returns {Promise<ArrayBuffer>} the trace as a file */
async function trace() {
  const answer = await fetch(frame.dataset.trace ?? "");
  if (!answer.ok) throw new Error((await answer.json()).message);
  const leftOut = Number(answer.headers.get("Mlscope-Left-Out"));
  if (leftOut) state.dataset.leftOut = `${leftOut.toLocaleString("en")} spans are left out: the file has the first million.`;
  return answer.arrayBuffer();
}

/** Resolves once the UI answers; it says nothing by itself.
 * @returns {Promise<void>} */
function ready() {
  return new Promise((resolve, reject) => {
    const asking = setInterval(() => frame.contentWindow?.postMessage("PING", location.origin), PING_MS);
    const giving = setTimeout(() => finish(() => reject(new Error("the Perfetto UI does not answer"))), GIVE_UP_MS);
    /** @param {() => void} end */
    function finish(end) {
      clearInterval(asking);
      clearTimeout(giving);
      removeEventListener("message", hear);
      end();
    }
    /** @param {MessageEvent} event */
    function hear(event) {
      if (event.source === frame.contentWindow && event.data === "PONG") finish(resolve);
    }
    addEventListener("message", hear);
  });
}

try {
  const [buffer] = await Promise.all([trace(), ready()]);
  const message = { perfetto: { buffer, title: frame.dataset.title, keepApiOpen: true } };
  frame.contentWindow?.postMessage(message, location.origin, [buffer]);
  state.textContent = state.dataset.leftOut ?? "";
  state.dataset.opened = "true";
} catch (error) {
  state.textContent = `The trace could not be opened: ${error instanceof Error ? error.message : error}`;
}
