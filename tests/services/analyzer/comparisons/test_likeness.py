"""Like conditions: what of a machine and its GPU refuses a pair, and what only a caveat tells."""

from typing import Any

import pytest

from services.analyzer.building.throttling import REASONS_SERIES
from services.analyzer.comparisons.regressions import COMPARISON
from services.analyzer.comparisons.source import Source
from tests.services.analyzer.comparisons.reading import batch, rows, source, table_of

MS = 1_000_000


def _on(name: str, **noise: Any) -> Source:
    return source(name, batch(1, MS, conditions={"noise": noise}))


def _sampled(name: str, *values: tuple[str, float], **more: Any) -> Source:
    """Return a plain run, and one traced deeper beside which its GPU was sampled."""
    series = [[what, n, 0, 0, value, "1"] for n, (what, value) in enumerate(values)]
    deep = batch(1, 2 * MS, run="s", level=5, device="gpu", series=series)
    return source(name, batch(1, MS, device="gpu"), deep | more)


def _pair(before: Any, after: Any) -> list[Source]:
    """Return two evaluations of one run each, which have the conditions `before` and `after`."""
    conditions = {"1.0": before, "2.0": after}
    return [source(name, batch(1, MS, conditions=own)) for name, own in conditions.items()]


def _unlike(*sources: Source) -> str:
    """Return the condition by which the only pair of runs is unlike; '' for none."""
    (row,) = rows(COMPARISON, *sources)
    return str(row["unlike"])


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ({"cores": 4}, {"cores": 8}, "cores"),
        ({"cpu_governor": "powersave"}, {"cpu_governor": "performance"}, "CPU governor"),
        ({"cores": 4}, {}, ""),
        ({"cores": 4, "load_average": 1.0}, {"cores": 4, "load_average": 3.0}, ""),
    ],
)
def test_another_machine_refuses(before: Any, after: Any, named: str) -> None:
    assert _unlike(_on("1.0", **before), _on("2.0", **after)) == named


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ({"processor": "A 1"}, {"processor": "B 2"}, "processor"),
        ({"accelerator": "H100"}, {"accelerator": "H200"}, "GPU model"),
        ({"accelerator": "H200"}, {"accelerator": "H200"}, ""),
        ({"accelerator": ""}, {"accelerator": "H200"}, ""),
        ({}, {"processor": "B 2"}, ""),
    ],
)
def test_another_processor_or_gpu_refuses(before: Any, after: Any, named: str) -> None:
    assert _unlike(*_pair(before, after)) == named


def test_another_clock_of_the_processor_is_told_and_refuses_nothing() -> None:
    slow, fast = _on("1.0", cpu_khz=2_000_000), _on("2.0", cpu_khz=3_000_000)
    table = table_of(COMPARISON, [slow, fast])
    assert table.caveats[0] == "b1, b1: at their ends the processor's clock was 2.00 and 3.00 GHz"
    assert rows(COMPARISON, slow, fast)[0]["result"] == "same"
    assert not any("clock" in note for note in table_of(COMPARISON, [slow, slow]).caveats)


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        (("nvml.clock_sm", 1980.0), ("nvml.clock_sm", 1700.0), "GPU clock"),
        (("nvml.clock_sm", 1980.0), ("nvml.clock_sm", 1950.0), ""),
        ((REASONS_SERIES, 0.0), (REASONS_SERIES, 4.0), "throttling"),
        ((REASONS_SERIES, 4.0), (REASONS_SERIES, 4.0), ""),
        (("nvml.clock_sm", 1980.0), (REASONS_SERIES, 4.0), ""),
    ],
)
def test_another_clock_of_the_gpu_refuses_all_runs_of_its_load(
    before: tuple[str, float], after: tuple[str, float], named: str
) -> None:
    told = rows(COMPARISON, _sampled("1.0", before), _sampled("2.0", after))
    assert [row["unlike"] for row in told] == [named, named]


def test_a_replays_clock_is_no_condition_of_timed_runs() -> None:
    clocks = [("nvml.clock_sm", value) for value in (1980.0, 1500.0)]
    sides = [_sampled(str(n), clock, variant="counters") for n, clock in enumerate(clocks)]
    assert _unlike(*sides) == ""


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ("ahead", "streamed", "samples"),
        ("", "ahead", "samples"),
        ("", "streamed", ""),
        ("ahead", "ahead", ""),
    ],
)
def test_samples_prepared_at_another_time_refuse(before: str, after: str, named: str) -> None:
    sides = ({"samples": mode, "mlscope_version": "0.1.0"} for mode in (before, after))
    assert _unlike(*_pair(*sides)) == named


@pytest.mark.parametrize("mode", ["ahead", "streamed"])
def test_an_imported_recording_is_compared_with_a_caveat(mode: str) -> None:
    old, new = _pair({}, {"samples": mode, "mlscope_version": "0.2.0"})
    assert _unlike(old, new) == ""
    note = f"b1, b1: one has samples {mode}; when the other's were prepared is unknown"
    assert note in table_of(COMPARISON, [old, new]).caveats
    assert not any("unknown" in caveat for caveat in table_of(COMPARISON, [old, old]).caveats)


def test_a_cold_start_of_an_old_release_is_like_one_of_this_release() -> None:
    old, new = (
        source(name, batch(1, MS, scenario="cold", conditions={"mlscope_version": name}))
        for name in ("0.1.0", "0.2.0")
    )
    assert _unlike(old, new) == ""
    assert not any("unknown" in caveat for caveat in table_of(COMPARISON, [old, new]).caveats)


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ({}, {"calls_in_flight": 1}, ""),
        ({}, {"calls_in_flight": 2}, "calls_in_flight"),
        ({"calls_in_flight": 2}, {"calls_in_flight": 2}, ""),
        ({"host_memory": "pageable"}, {"host_memory": "page-locked"}, "host_memory"),
        ({}, {"host_memory": ""}, ""),
    ],
)
def test_calls_that_overlap_or_copy_otherwise_refuse(before: Any, after: Any, named: str) -> None:
    assert _unlike(*_pair(before, after)) == named


def test_a_request_may_name_what_another_one_has_by_default() -> None:
    old, new = (
        source(name, batch(1, MS, conditions={"samples": "ahead"}, parameters=parameters))
        for name, parameters in (("1.0", {}), ("2.0", {"samples": "ahead"}))
    )
    assert _unlike(old, new) == ""


@pytest.mark.parametrize(("khz", "is_told"), [(1_099_000, False), (1_101_000, True), (0, False)])
def test_a_clock_within_a_tenth_is_the_same_and_one_of_zero_unknown(
    khz: int, is_told: bool
) -> None:
    table = table_of(COMPARISON, [_on("1.0", cpu_khz=1_000_000), _on("2.0", cpu_khz=khz)])
    assert any("processor's clock" in note for note in table.caveats) is is_told
