// What the live stream says of each run: counts so far, and rates between two readings.

/**
 * @typedef {object} Reading
 * @property {string} run
 * @property {number} attempt
 * @property {number} answered
 * @property {number} failed
 * @property {number} spans
 * @property {number} samples
 * @property {number} busy_ns sum of all latencies
 * @property {number} until_ns end of the last query, on the run's own clock
 * @property {number} p50_ns
 * @property {number} p90_ns
 * @property {number} p99_ns
 * @property {number} unheard batches that nobody watched: the counts lack them
 * @property {number|null|undefined} cpu_cores CPU-seconds a second of the run's processes
 * @property {number|null|undefined} gpu_share share of the GPU's time
 * @property {number|null|undefined} power_w power of the GPU
 * @property {number[]} histogram buckets and counts in turn
 * @property {number[]} slowest the slowest query of each of these buckets
 * @property {number|undefined} rate queries/s, between this reading and one before
 * @property {number|undefined} samplesRate samples/s
 * @property {number|undefined} flight queries in flight, by Little's law
 */

const WINDOW_NS = 1e9;
const COUNTS = ["answered", "failed", "spans"];
const USE = ["cpu_cores", "gpu_share", "power_w"];
const RATES = ["rate", "samplesRate", "flight"];
const NAMES = ["run", "attempt", "answered", "failed", "spans", "samples", "busy_ns", "until_ns", "p50_ns", "p90_ns", "p99_ns", "unheard", "cpu_cores", "gpu_share", "power_w", "histogram", "slowest"];

/** The newest reading of each run, and some before, for rates. */
export class Progress {
  constructor() {
    /** @type {Map<string, Reading[]>} */
    this.readings = new Map();
  }

  /**
   * Take a tick, whose columns have an entry for each run; return the readings that changed.
   * A reading of an attempt before the newest is no news.
   * @returns {Reading[]}
   */
  take(tick) {
    const changed = [];
    for (let place = 0; place < tick.run.length; place += 1) {
      const reading = Object.fromEntries(NAMES.map((name) => [name, tick[name]?.[place]]));
      const before = this.readings.get(reading.run) ?? [];
      const last = before.at(-1);
      if (last && reading.attempt < last.attempt) continue;
      const isNew = !last || reading.attempt > last.attempt;
      for (const name of ["histogram", "slowest"]) reading[name] ??= isNew ? [] : last[name];
      const isSame = (name) => !isNew && (last[name] ?? null) === (reading[name] ?? null);
      if ([...COUNTS, ...USE].every(isSame)) continue;
      // What a run uses is told between queries too: the rates stay those of the last queries.
      const isUseAlone = COUNTS.every(isSame);
      const history = isNew ? [] : before.filter((one) => (one.until_ns >= reading.until_ns - WINDOW_NS || one === last) && !(isUseAlone && one === last));
      if (isUseAlone) for (const name of RATES) reading[name] = last[name];
      else addRates(reading, history[0]);
      history.push(reading);
      this.readings.set(reading.run, history);
      changed.push(reading);
    }
    return changed;
  }
}

/** Add the rates of a reading since an earlier one; without one, or without time between, none. */
export function addRates(reading, earlier) {
  const seconds = earlier ? (reading.until_ns - earlier.until_ns) / 1e9 : 0;
  if (!(seconds > 0) || earlier.until_ns < 0) return;
  reading.rate = (reading.answered - earlier.answered) / seconds;
  reading.samplesRate = (reading.samples - earlier.samples) / seconds;
  reading.flight = (reading.busy_ns - earlier.busy_ns) / 1e9 / seconds;
}

/** Return the seconds that a run still takes at its rate, undefined where that is not known. */
export function secondsLeft(queries, reading) {
  const left = queries - reading.answered - reading.failed;
  return reading.rate > 0 && queries > 0 && left >= 0 ? left / reading.rate : undefined;
}
