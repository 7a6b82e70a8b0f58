"""A device's roof: as measured, else its datasheet's; unknown is unknown, never zero."""

from dataclasses import replace
from typing import Any

import pytest

from services.analyzer.building.roofs.ceilings import ceilings_of, roof_note, roof_sentences
from services.analyzer.frames.evaluation import RunRow


def _row(peak: Any, bandwidth: Any) -> RunRow:
    return RunRow(1, "r", conditions={"peak_flops": peak, "memory_bandwidth": bandwidth})


def test_measured_goes_before_the_datasheet() -> None:
    row = _row(
        {"measured": 12e12, "datasheet": 15.7e12, "method": "GEMM"},
        {"measured": 600e9, "datasheet": 900e9, "method": "copy"},
    )
    found = ceilings_of(row)
    assert (found.peak, found.bandwidth, found.kind) == (12e12, 600e9, "measured")
    assert (found.datasheet_peak, found.method) == (15.7e12, "GEMM; copy")
    assert found.ideal_intensity == 20.0
    assert roof_note(row) == ""


def test_a_measured_peak_is_not_set_over_a_datasheets_bandwidth() -> None:
    row = _row({"measured": 12e12, "datasheet": 15.7e12}, {"datasheet": 900e9})
    found = ceilings_of(row)
    assert (found.peak, found.bandwidth, found.kind) == (15.7e12, 900e9, "datasheet")
    assert "datasheet" in roof_note(row)


def test_a_roof_is_told_with_its_datasheet() -> None:
    row = _row(
        {"measured": 12e12, "datasheet": 15.7e12, "method": "tf32"},
        {"measured": 600e9, "datasheet": None, "method": "copy"},
    )
    other = replace(row, run="s")
    assert roof_sentences([row, other]) == [
        (
            "r, s: the roof is 12 TFLOP/s (uncertainty unknown) (datasheet 15.7 TFLOP/s) and "
            "600 GB/s (uncertainty unknown) (tf32; copy)"
        )
    ]


def test_a_roof_that_nobody_measured_is_told_as_such() -> None:
    sheet = _row({"datasheet": 15.7e12}, {"datasheet": 900e9})
    (told,) = roof_sentences([sheet])
    assert told.endswith("GB/s; from the datasheet, not measured there")
    (unknown,) = roof_sentences([_row(None, None)])
    assert unknown == roof_note(_row(None, None))


@pytest.mark.parametrize("peak", [None, {}, 0, -1, "fast", {"measured": None}, {"measured": True}])
def test_an_unknown_device_bounds_nothing(peak: Any) -> None:
    row = _row(peak, 900e9)
    found = ceilings_of(row)
    assert found.kind == ""
    assert found.is_memory_bound(1.0) is None
    assert found.roof(1.0) is None
    assert "unknown" in roof_note(row)


def test_the_roof_rises_with_intensity_up_to_the_peak() -> None:
    found = ceilings_of(_row(15.7e12, 900e9))
    assert found.roof(1.0) == 900e9
    assert found.roof(1000.0) == 15.7e12
    assert found.ideal_intensity == pytest.approx(17.44, abs=0.005)
    assert [found.is_memory_bound(each) for each in (0.0, 17.4, 17.5, None)] == [
        True,
        True,
        False,
        None,
    ]


def _measured(peak: dict[str, Any], bandwidth: dict[str, Any]) -> RunRow:
    """Return a run whose roof was measured as 20 FLOP/s and 10 B/s."""
    return _row({"measured": 20.0, **peak}, {"measured": 10.0, **bandwidth})


@pytest.mark.parametrize(
    ("intensity", "is_bound"),
    [(1.59, True), (1.61, None), (2.0, None), (2.99, None), (3.0, False), (0.0, True)],
)
def test_near_the_ridge_uncertain_ceilings_decide_nothing(
    intensity: float, is_bound: bool | None
) -> None:
    # The ridge lies at 2 FLOP per byte; a peak 50% higher moves it to 3, a bandwidth 25% to 1.6.
    row = _measured({"uncertainty": 0.5}, {"uncertainty": 0.25})
    assert ceilings_of(row).is_memory_bound(intensity) is is_bound


def test_the_ceiling_that_bounds_an_intensity_gives_its_uncertainty() -> None:
    ceilings = ceilings_of(_measured({"uncertainty": 0.5}, {"uncertainty": 0.25}))
    assert [ceilings.uncertainty(at) for at in (1.99, 2.0, 9.0, None)] == [0.25, 0.5, 0.5, 0.5]
    assert ceilings_of(_measured({}, {"uncertainty": 0.25})).uncertainty(9.0) is None
    assert ceilings_of(_row({"datasheet": 20.0}, {"datasheet": 10.0})).uncertainty(9.0) == 0.0
    assert ceilings_of(_row(None, None)).uncertainty(9.0) is None


@pytest.mark.parametrize("uncertainty", [True, "little", -0.1, 1.1, None])
def test_an_odd_uncertainty_is_none(uncertainty: Any) -> None:
    ceilings = ceilings_of(_measured({"uncertainty": uncertainty}, {}))
    assert ceilings.peak_uncertainty is None
    assert "20 FLOP/s (uncertainty unknown)" in ceilings.description


@pytest.mark.parametrize(
    ("peak", "bandwidth", "cause"),
    [
        ("heat", "heat", "heat"),
        ("heat", "noise", "heat (for the peak) and noise (for the bandwidth)"),
        ("heat", "", "heat (for the peak)"),
        ("", "noise", "noise (for the bandwidth)"),
        ("", "", ""),
    ],
)
def test_what_disturbed_a_measurement_is_told_once(peak: str, bandwidth: str, cause: str) -> None:
    row = _measured({"disturbance": peak}, {"disturbance": bandwidth})
    ceilings = ceilings_of(row)
    assert ceilings.disturbance == cause
    note = f"; it may be higher: {cause} during the measurement" if cause else ""
    assert ceilings.description == (
        f"20 FLOP/s (uncertainty unknown) and 10 B/s (uncertainty unknown){note}"
    )
    assert ceilings.is_memory_bound(0.1) is (None if cause else True)


def test_a_measured_roof_says_how_much_higher_it_may_be() -> None:
    row = _measured({"uncertainty": 0.125, "datasheet": 30.0}, {"datasheet": 10.0})
    (sentence,) = roof_sentences([row])
    assert sentence == (
        "r: the roof is 20 FLOP/s (up to 12.5% higher) (datasheet 30 FLOP/s) "
        "and 10 B/s (uncertainty unknown)"
    )
