"""The best of the measurements of a device, and how far they differ."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.run import Ceiling
from services.agent.machine.roofline.ceilings import Roof
from services.agent.machine.roofline.measurements import KeptRoof, best_of

RATES = st.floats(1e9, 1e12)
SPREADS = st.floats(0, 0.5)
CEILINGS = st.builds(
    Ceiling, measured=RATES, uncertainty=SPREADS, measured_ns=st.integers(0, 10**9)
)
BY_THREADS = st.dictionaries(st.sampled_from([1, 2, 4]), CEILINGS, min_size=1, max_size=3)
ROOFS = st.builds(
    Roof,
    kind=st.just("cpu"),
    peaks=st.dictionaries(st.sampled_from(["float32", "int8"]), BY_THREADS, min_size=1),
    bandwidths=BY_THREADS,
    missing=st.just({"int8": "not asked", "copy": "no memory"}),
)


@given(st.lists(ROOFS, min_size=1, max_size=4))
def test_no_measurement_exceeds_the_best_and_all_lie_within_its_uncertainty(
    measurements: list[Roof],
) -> None:
    best = best_of(measurements)
    for roof in measurements:
        for name, by_threads in roof.peaks.items():
            for threads, ceiling in by_threads.items():
                known = best.peaks[name][threads]
                assert known.measured is not None
                assert ceiling.measured is not None
                assert ceiling.measured <= known.measured
                least = known.measured * (1 - (known.uncertainty or 0))
                assert ceiling.measured >= 0.999999 * least
    assert "copy" not in best.missing
    assert ("int8" in best.missing) == ("int8" not in best.peaks)


@given(st.lists(ROOFS, max_size=4), st.text(max_size=9))
def test_a_file_keeps_all_measurements(measurements: list[Roof], note: str) -> None:
    kept = KeptRoof(tuple(roof.with_changes(measurements=1) for roof in measurements), note)
    assert KeptRoof.from_dict(kept.to_dict()) == kept


def test_the_best_is_of_each_precision_and_threads() -> None:
    first = Roof("cpu", "A", {"float32": {1: at(10.0, 1), 2: at(15.0, 1)}}, {1: at(3.0, 1)})
    second = Roof("cpu", "A", {"float32": {1: at(8.0, 2), 2: at(20.0, 2)}}, {1: at(4.0, 2)})
    best = best_of([first, second])
    peaks = best.peaks["float32"]
    assert [(peak.measured, peak.measured_ns) for peak in peaks.values()] == [(10.0, 1), (20.0, 2)]
    assert [peak.uncertainty for peak in peaks.values()] == [
        pytest.approx(0.2),
        pytest.approx(0.25),
    ]
    assert peaks[1].method == "m, in the best of 2 measurements"
    assert best.bandwidths[1].measured == 4.0


def at(measured: float, measured_ns: int) -> Ceiling:
    return Ceiling(measured=measured, uncertainty=0.02, method="m", measured_ns=measured_ns)


def test_a_measurement_without_a_figure_is_none() -> None:
    full = Roof("gpu", "H200", missing={"float32": "no memory", "copy": "64 bytes are free"})
    kept = KeptRoof().with_measurement(full)
    assert kept == KeptRoof(note="not measured yet: float32: no memory; copy: 64 bytes are free")
    assert kept.roof is None
    once = KeptRoof().with_measurement(Roof("gpu", "H200", bandwidths={0: at(3.0, 1)}))
    assert once.with_measurement(full) == once
