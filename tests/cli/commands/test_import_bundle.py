"""`mlscope import`: a bundle that was imported before."""

from typing import Any, cast

import pytest

from cli.commands import import_bundle
from cli.commands.import_bundle import follow_import
from cli.failures import Misused
from mlscope.client import AsyncClient
from mlscope.client.errors import EvaluationRefused
from schemas.request import Evaluate, Refused
from schemas.status import Catalog
from tests.services.scheduler.samples import an_agent


class Refusing:
    """A client whose requests are refused."""

    def __init__(self, error: str) -> None:
        self.refused = Refused.model_validate({"error": error, "message": "the key was used"})

    async def evaluate(self, _: Evaluate) -> None:
        """Refuse."""
        raise EvaluationRefused(self.refused)


class Emptying:
    """A client of a cluster whose agent `a1` leaves after a number of looks."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    async def catalog(self, _: str) -> Catalog:
        """Return the agents that are live now."""
        self.looks -= 1
        return Catalog(agents=(an_agent("a1"), an_agent("a2"))[self.looks < 0 :])


@pytest.mark.parametrize(("looks", "expected"), [(0, True), (3, True), (10**6, False)])
async def test_an_agent_that_is_leaving_is_waited_for(
    looks: int, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_bundle, "_LEAVING_POLL_S", 0.0)
    assert await import_bundle._has_left(cast("AsyncClient", Emptying(looks)), "a1") is expected


async def test_a_key_of_another_request_is_told_as_a_second_import() -> None:
    client, playback = cast("AsyncClient", Refusing("conflict")), cast("Any", None)
    with pytest.raises(Misused, match=r"imported before; --again imports it .*key was used"):
        await follow_import(client, Evaluate(model="m"), playback)


async def test_other_refusals_stay_what_they_are() -> None:
    client, playback = cast("AsyncClient", Refusing("invalid")), cast("Any", None)
    with pytest.raises(EvaluationRefused):
        await follow_import(client, Evaluate(model="m"), playback)
