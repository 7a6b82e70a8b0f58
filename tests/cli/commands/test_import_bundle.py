"""`mlscope import`: a bundle that was imported before."""

from typing import Any, cast

import pytest

from cli.commands.import_bundle import follow_import
from cli.failures import Misused
from mlscope.client import AsyncClient
from mlscope.client.errors import EvaluationRefused
from schemas.request import Evaluate, Refused


class Refusing:
    """A client whose requests are refused."""

    def __init__(self, error: str) -> None:
        self.refused = Refused.model_validate({"error": error, "message": "the key was used"})

    async def evaluate(self, _: Evaluate) -> None:
        """Refuse."""
        raise EvaluationRefused(self.refused)


async def test_a_key_of_another_request_is_told_as_a_second_import() -> None:
    client, playback = cast("AsyncClient", Refusing("conflict")), cast("Any", None)
    with pytest.raises(Misused, match=r"imported before; --again imports it .*key was used"):
        await follow_import(client, Evaluate(model="m"), playback)


async def test_other_refusals_stay_what_they_are() -> None:
    client, playback = cast("AsyncClient", Refusing("invalid")), cast("Any", None)
    with pytest.raises(EvaluationRefused):
        await follow_import(client, Evaluate(model="m"), playback)
