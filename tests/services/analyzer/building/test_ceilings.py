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
