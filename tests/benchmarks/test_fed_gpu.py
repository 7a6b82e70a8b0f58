"""The table of a fed GPU: verdicts, bounds, and a command that goes on where it ended."""

import time
from pathlib import Path
from typing import Any

from benchmarks.fed_gpu.__main__ import measure_parts, stored_figures
from benchmarks.fed_gpu.parts import DECODING, PREPARATION
from benchmarks.fed_gpu.tables import conditions, page, wanted_rows
from benchmarks.feeding_cases import NATIVE, RESNET, Case
from benchmarks.feeding_gpu import AHEAD, FREE, ONLINE, STREAMED
from benchmarks.preparation import ALONE, FAST, OURS

LATE_S = 3600.0


def a_case(name: str = "small 8", *, predict_ms: float = 10.0, streamed: float = 400.0) -> Any:
    return {
        "case": name,
        "batch_size": 8,
        "machine": "a card",
        "predict_ms": {ONLINE: [predict_ms] * 3},
        "bare_ms": {ONLINE: [10.0] * 3},
        "bare_two_ms": {AHEAD: [10.0] * 3},
        "samples_per_s": {AHEAD: [800.0] * 3, STREAMED: [streamed] * 3},
        "one_by_one_ms": {ONLINE: [10.0] * 3, STREAMED: [10.1] * 3},
        "preparation_per_s": [400.0] * 3,
    }


def a_preparation() -> Any:
    rates = {OURS: 2300.0, ALONE: 2400.0, FAST: 3400.0}
    return {
        "machine": "a card",
        "processes": 13,
        "photographs": 9,
        "alone_per_s": dict.fromkeys(rates, 200.0),
        "together_per_s": rates,
        "over_calls_alone": [0.95] * 3,
    }


def verdicts(parts: dict[str, Any]) -> dict[str, str]:
    return {row[0]: row[-1] for row in wanted_rows(parts)}


def test_the_worst_case_is_named_and_the_missed_are_counted() -> None:
    cases = [a_case(), a_case("slow 8", predict_ms=10.5)]
    row = wanted_rows({case["case"]: case for case in cases})[0]
    assert row == ["predict ahead / bare", "≤ 1.02", "1.050 (slow 8)", "missed by 1 of 2"]


def test_throughput_is_judged_by_the_lower_of_both_rates() -> None:
    slow = a_case(streamed=370.0)
    assert verdicts({"small 8": slow})["throughput streamed / bound"] == "missed by 1 of 1"
    assert verdicts({"small 8": a_case()})["throughput streamed / bound"] == "met by all"


def test_rates_of_preparation_have_wanted_rates_of_their_own() -> None:
    found = verdicts({PREPARATION: a_preparation()})
    assert found["preparation, bit for bit, 13 processes (1/s)"] == "met"
    assert found["preparation, native, 13 processes (1/s)"] == "missed"


def test_a_gpu_that_decodes_and_predicts_does_one_after_the_other() -> None:
    turns = [{"prepared": 10_000.0, "ahead": 15_000.0, "streamed": 5_700.0}]
    decoding = {"machine": "a", "case": "c", "per_s": {"device": turns}, "notes": []}
    assert "| 5700 | 0.570 | 0.950 |" in page({DECODING: decoding}, [DECODING])


def test_kappa_is_told_for_a_thread_that_is_kept_and_for_one_that_moves() -> None:
    loops = {"5": 1.5, "13": 1.0, "7": 2.5}
    case = {**a_case(), "predict_cores": [5, 13], "loop_ms": loops}
    case["one_by_one_ms"] |= {ONLINE + FREE: [8.0] * 3, STREAMED + FREE: [12.0] * 3}
    shown = page({"small 8": case}, ["small 8"])
    times = "10.00 | 8.00 | 10.10 | 12.00 |"
    ranges = [f"{x} ({x} .. {x})" for x in ("1.010", "1.500", "1.262")]
    head = "| small 8 | 5,13 | 1.50 (1.00 .. 2.50) |"
    assert f"{head} {' | '.join(ranges)} | {times}" in shown
    assert "free to move" not in page({"small 8": a_case()}, ["small 8"])


def test_parts_of_two_cards_are_told_apart() -> None:
    other = {**a_case("other 8"), "machine": "another card"}
    lines = conditions({"small 8": a_case(), "other 8": other}).splitlines()
    assert lines == ["a card: small 8.", "another card: other 8."]


class CountedPart:
    """A part that counts how often it is measured; a broken one fails each time."""

    def __init__(self, *, is_broken: bool = False) -> None:
        self._is_broken = is_broken
        self.measured = 0

    def __call__(self) -> dict[str, Any]:
        """Measure it."""
        self.measured += 1
        if self._is_broken:
            raise ValueError("no")
        return {"value": 1}


def test_a_part_that_is_kept_is_not_measured_again(tmp_path: Path) -> None:
    stable, broken = CountedPart(), CountedPart(is_broken=True)
    parts = {"broken": broken, "a part": stable}
    for _ in range(2):
        measure_parts(parts, tmp_path, time.monotonic() + LATE_S, "a card")
    assert (stable.measured, broken.measured) == (1, 2)
    assert stored_figures(tmp_path, parts) == {"a part": {"value": 1, "machine": "a card"}}


def test_no_part_begins_after_the_time_is_up(tmp_path: Path) -> None:
    measure_parts({"late": dict}, tmp_path, time.monotonic() - 1.0, "a card")
    assert not list(tmp_path.iterdir())


def test_a_native_case_resizes_by_the_other_library() -> None:
    model = Case("native", RESNET, 2, resized_by=NATIVE).subject().model
    libraries = {step.operator: step.parameters.get("library") for step in model.inputs[0].steps}
    assert {name for name, library in libraries.items() if library == NATIVE} == {"resize"}
