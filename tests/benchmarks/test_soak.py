"""How a soak is judged: by medians of two windows, and by sizes on disk."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks import soak
from benchmarks.soak import MIB, Look, judged, window_of


def looks(
    growth: float = 1.0,
    batches_mib: int = 10,
    pid_at_the_end: int = 1,
    most_evaluations: int = 80,
    nats_mib: int = 100,
) -> list[Look]:
    """Return looks of 80 minutes, in whose second half a collector of 100 MB has grown."""
    return [
        Look(
            at_s=60.0 * minute,
            evaluations=min(minute, most_evaluations),
            memory={
                "collector": (
                    pid_at_the_end if minute == 80 else 1,
                    int(1e8 * (growth if minute > 40 else 1)),
                ),
                "nats": (2, nats_mib * MIB),
            },
            batches_bytes=batches_mib * MIB,
            log_bytes=minute,
            database_bytes=minute,
            agents_bytes=0,
        )
        for minute in range(81)
    ]


def test_the_windows_are_the_end_of_the_first_quarter_and_the_end() -> None:
    ends = [window_of(looks(), *shares) for shares in ((1 / 8, 1 / 4), (7 / 8, 1))]
    assert [(each[0].at_s, each[-1].at_s) for each in ends] == [(600, 1200), (4200, 4800)]


def test_what_grows_is_restarted_or_exceeds_its_bound_is_counted() -> None:
    assert judged(looks()) == 0
    assert judged(looks(growth=1.04)) == 0
    assert judged(looks(growth=1.06)) == 1
    assert judged(looks(pid_at_the_end=2)) == 1
    assert judged(looks(growth=1.06, batches_mib=81)) == 2
    assert judged(looks(nats_mib=4000)) == 1


@pytest.mark.parametrize("most_evaluations", [0, 70])
def test_a_soak_whose_evaluations_ended_too_early_is_counted(most_evaluations: int) -> None:
    assert judged(looks(most_evaluations=most_evaluations)) == 1


def test_what_ends_the_load_ends_the_soak(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Refused:
        def __init__(self, **_: Any) -> None:
            raise ConnectionError("no broker")

    monkeypatch.setattr("mlscope.Client", Refused)
    monkeypatch.setattr(soak, "look", lambda *_: looks()[0])
    with pytest.raises(ConnectionError, match="no broker"):
        soak.soak(tmp_path, 3600, None)
