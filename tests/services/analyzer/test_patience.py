"""The analyzer waits a little for a count that the collector notes in a moment."""

import pytest

from services.analyzer.errors import CountMissing
from services.analyzer.patience import until_counted


async def test_a_count_that_comes_in_a_moment_is_waited_for() -> None:
    answers = iter([False, False, True])

    def read(run: str) -> str:
        if not next(answers):
            raise CountMissing(run)
        return run

    assert await until_counted(read, "r0") == "r0"


async def test_a_count_that_does_not_come_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.analyzer.patience._COUNT_DELAYS_S", (0.0, 0.0))

    def read() -> None:
        raise CountMissing("r0")

    with pytest.raises(CountMissing):
        await until_counted(read)
