/** How long frames take: the newest are kept for who measures. */

const KEPT = 2000;

export class Frames {
  constructor() {
    this.times = new Float64Array(KEPT);
    this.draws = new Float64Array(KEPT);
    this.count = 0;
    this.last = 0;
  }

  /** Note a frame at a time, drawn in so many ms; time between frames counts only while they follow each other. */
  note(at, draw, isFollowing) {
    const place = this.count % KEPT;
    this.times[place] = isFollowing && this.last ? at - this.last : 0;
    this.draws[place] = draw;
    this.last = at;
    this.count += 1;
  }

  /** Forget all. */
  reset() {
    this.count = 0;
    this.last = 0;
  }

  stats() {
    const kept = Math.min(this.count, KEPT);
    const sorted = (values) => values.slice(0, kept).filter((ms) => ms > 0).sort();
    const quantile = (values, share) => values[Math.min(values.length - 1, Math.floor(values.length * share))] ?? 0;
    const times = sorted(this.times), draws = sorted(this.draws);
    return {
      frames: this.count, frameP50: quantile(times, 0.5), frameP95: quantile(times, 0.95),
      drawP50: quantile(draws, 0.5), drawP95: quantile(draws, 0.95),
    };
  }
}
