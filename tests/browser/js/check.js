/** Assertions for tests of modules. */

function text(value) {
  return JSON.stringify(value, (_, part) => {
    if (ArrayBuffer.isView(part)) return [...part];
    if (typeof part === "bigint") return `${part}n`;
    return Number.isNaN(part) ? "NaN" : part;
  });
}

/** Throw unless two values have the same JSON; typed arrays count as arrays. */
export function equal(actual, expected, about = "") {
  if (text(actual) !== text(expected)) throw new Error(`${about} expected ${text(expected)}, got ${text(actual)}`);
}

/** Throw unless a condition holds. */
export function ok(condition, about = "") {
  if (!condition) throw new Error(`does not hold: ${about}`);
}

/** Throw unless two numbers differ by at most a tolerance. */
export function close(actual, expected, tolerance = 1e-9, about = "") {
  if (!(Math.abs(actual - expected) <= tolerance)) throw new Error(`${about} expected ${expected} ± ${tolerance}, got ${actual}`);
}

/** Throw unless a function throws. */
export function throws(action, about = "") {
  try {
    action();
  } catch {
    return;
  }
  throw new Error(`${about} did not throw`);
}
