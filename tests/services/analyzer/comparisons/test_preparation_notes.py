"""Comparisons of runs that prepared their samples at different times say so."""

import pytest

from services.analyzer.comparisons import COMPARISONS
from tests.services.analyzer.comparisons.reading import batch, source, table_of

MS = 1_000_000
NOTE = (
    "times at which samples were prepared differ: ahead, streamed: figures with streamed samples "
    "include preparation and post-processing"
)
OF_RATES = ("systems", "throughput_by_batch", "speedup", "cost", "choice")


@pytest.mark.parametrize("name", OF_RATES)
def test_rates_with_and_without_preparation_have_a_caveat(name: str) -> None:
    (comparison,) = (each for each in COMPARISONS if each.name == name)
    ahead, streamed, old = (
        source(name, batch(1, MS, conditions=conditions))
        for name, conditions in (
            ("1.0", {"samples": "ahead"}),
            ("2.0", {"samples": "streamed"}),
            ("3.0", {"mlscope_version": "0.1.0"}),
        )
    )
    assert NOTE in table_of(comparison, [ahead, streamed]).caveats
    assert NOTE in table_of(comparison, [ahead, old]).caveats
    assert NOTE not in table_of(comparison, [streamed, old]).caveats


def test_inputs_on_the_device_and_unknown_preparation_have_a_caveat() -> None:
    (comparison,) = (each for each in COMPARISONS if each.name == "speedup")
    host, device, imported = (
        source(name, batch(1, MS, conditions=conditions))
        for name, conditions in (
            ("1.0", {"samples": "ahead"}),
            ("2.0", {"samples": "ahead", "inputs": "device"}),
            ("3.0", {}),
        )
    )
    notes = [
        note
        for other in (device, imported)
        for note in table_of(comparison, [host, other]).caveats
        if note.startswith("times at which samples")
    ]
    assert "differ: ahead, ahead with inputs on the device" in notes[0]
    assert "differ: ahead, unknown" in notes[1]
