/** What the timeline asks the server for: lanes, spans as Arrow, and the details of one span. */

const ASK_AGAIN_MS = 250;

/** An answer that is an error, with what the server says of it. */
export class Refusal extends Error {}

async function answer(url, signal) {
  const response = await fetch(url, { signal });
  if (response.ok) return response;
  const refused = await response.json().catch(() => ({}));
  throw new Refusal(refused.message ?? `${response.status} ${response.statusText}`);
}

export class Source {
  /** @param {string} api address of the evaluation below /api @param {string} run */
  constructor(api, run) {
    this.api = api;
    this.base = `${api}/runs/${encodeURIComponent(run)}`;
  }

  /** Lanes, range of time, number of spans, gaps; `onShare` hears how far a long run is prepared before. */
  async overview(onShare = () => {}) {
    for (;;) {
      const trace = await (await answer(`${this.base}/trace?waits=no`)).json();
      const share = trace.prepared_share ?? 1;
      if (share >= 1) return trace;
      onShare(share, trace.spans);
      await new Promise((done) => setTimeout(done, ASK_AGAIN_MS));
    }
  }

  /** An Arrow stream of some columns of the spans of a window; those shorter than `least` ns become tiles. */
  async spans({ from, to, least = 0, limit, columns }, signal) {
    const parameters = new URLSearchParams();
    if (from !== undefined) parameters.set("t0", String(Math.floor(from)));
    if (to !== undefined) parameters.set("t1", String(Math.ceil(to)));
    if (least) parameters.set("min_ns", String(Math.floor(least)));
    if (limit) parameters.set("limit", String(limit));
    if (columns) parameters.set("columns", columns.join(","));
    const response = await answer(`${this.base}/spans?${parameters}`, signal);
    return response.arrayBuffer();
  }

  /** Attributes and kin of one span; null where the server knows no such span. */
  async details(id, signal) {
    try {
      return await (await answer(`${this.base}/spans/${id}`, signal)).json();
    } catch (error) {
      if (error instanceof Refusal) return null;
      throw error;
    }
  }
}
