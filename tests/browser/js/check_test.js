import { close, equal, ok, throws } from "/js/check.js";

export function test_assertions_throw_when_they_fail() {
  throws(() => equal([1], [2]));
  throws(() => ok(false));
  throws(() => close(1, 2, 0.5));
  throws(() => throws(() => 1));
}

export function test_typed_arrays_and_bigints_are_compared() {
  equal(Float64Array.of(1, 2), [1, 2]);
  throws(() => equal(1n, 1));
  throws(() => equal(NaN, 0));
}
