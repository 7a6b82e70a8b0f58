"""What a benchmark says of a claim is no more than its intervals let it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks import predict
from benchmarks.predict import WANTED_US, Case, Over

ALIKE = Over(0.0, -2.0, 3.0)
"""What two calls of a kind differ by."""


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-5.0, WANTED_US, "holds"),
        (4.0, WANTED_US + 0.1, "cannot be told here"),
        (WANTED_US + 2.9, 90.0, "cannot be told here"),
        (WANTED_US + 3.1, 90.0, "MISSED"),
    ],
)
def test_a_claim_is_judged_by_both_ends(low: float, high: float, verdict: str) -> None:
    assert Over((low + high) / 2, low, high).verdict(ALIKE) == verdict


def test_too_few_differences_decide_nothing() -> None:
    over = Over.of(np.array([1.0, 2.0, 1.5]))
    assert (over.median_us, over.verdict(ALIKE)) == (1.5, "cannot be told here")


def test_many_differences_have_an_interval_around_their_median() -> None:
    over = Over.of(np.arange(101.0))
    assert over.low_us < over.median_us == 50 < over.high_us


def test_a_predictor_is_judged_against_bare_calls_from_its_own_memory(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bare has the fast copies of locked pages, too: a predictor 20 us slower misses the claim."""
    arrays: list[Any] = []

    def timed(calls: list[Callable[[], Any]], *_: object) -> list[Any]:
        for call in calls:
            call()
        return [np.full(61, time_us) for time_us in (100.0, 100.0, 120.0, 900.0)]

    (case,) = (own for own in predict.cases("onnxruntime", "cpu") if own.name == predict.IDENTITY)
    watched = Case(case.framework, case.name, case.request, lambda _: arrays.append)
    monkeypatch.setattr(predict, "timed", timed)
    assert predict.measure(watched, 1, 61) is True
    first, second, pageable = arrays
    assert first is second is not pageable
    assert "MISSED" in capsys.readouterr().out
