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


@pytest.mark.parametrize("is_sure", [True, False])
async def test_only_a_count_that_is_sure_to_come_is_missed_in_the_end(
    is_sure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.analyzer.patience._COUNT_DELAYS_S", (0.0, 0.0))

    def read(run: str, *, awaits_counts: bool = True) -> str:
        if awaits_counts or is_sure:
            raise CountMissing(run)
        return run

    if not is_sure:
        assert await until_counted(read, "r0") == "r0"
        return
    with pytest.raises(CountMissing):
        await until_counted(read, "r0")
