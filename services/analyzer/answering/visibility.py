"""Which evaluations are hidden from whom: private ones, as the log says."""

import asyncio
from collections.abc import Mapping
from typing import Any

from mlscope.bus.bus import Answerer, Bus
from mlscope.bus.envelopes import refusal
from mlscope.bus.errors import BusError
from mlscope.bus.records import ReceivedCommand
from schemas.encoding.codec import unpack
from schemas.encoding.errors import SchemaError
from schemas.evaluation import EvaluationRequested
from schemas.people import Asker
from schemas.subjects import ROOT, asker_of

_REQUESTS = f"{ROOT}.evaluation.*.requested"


class Visibility:
    """The private evaluations, by who requested them; the log is read on whenever that counts."""

    def __init__(self, bus: Bus) -> None:
        """Read requests over `bus`, from the first one when a person first asks."""
        self._bus = bus
        self._private: dict[str, str] = {}
        self._sequence = 0
        self._turn = asyncio.Lock()

    async def hidden_from(self, asker: Asker) -> frozenset[str]:
        """Return the evaluations that an `asker` may not see. Raises BusError."""
        if asker.is_owner:
            return frozenset()
        async with self._turn:
            for recorded in await self._bus.read(_REQUESTS, after=self._sequence):
                fact, self._sequence = recorded.fact, recorded.sequence
                if isinstance(fact, EvaluationRequested) and fact.request.visibility == "private":
                    self._private[fact.evaluation] = fact.requested_by
        return frozenset(
            evaluation
            for evaluation, requested_by in self._private.items()
            if not asker.may_see(requested_by, is_private=True)
        )

    def guarded(self, answerer: Answerer) -> Answerer:
        """Return an answerer that knows no evaluation that is hidden from who asks."""

        async def answer(command: ReceivedCommand) -> bytes | None:
            try:
                hidden = await self.hidden_from(asker_of(command.subject))
            except BusError as error:
                return refusal("unavailable", f"not available: {error}", command.body)
            named = evaluations_in(command.body) & hidden if hidden else ()
            for evaluation in named:
                return refusal("unknown", f"no evaluation {evaluation}", command.body)
            return await answerer(command)

        return answer


def evaluations_in(body: bytes) -> frozenset[str]:
    """Return what the `body` of a command names as evaluations; nothing for what is no command."""
    try:
        fields: Mapping[str, Any] = unpack(body)
    except SchemaError:
        return frozenset()
    others = fields.get("others")
    named = [fields.get(name) for name in ("evaluation", "first", "second")]
    named += others if isinstance(others, list | tuple) else []
    return frozenset(name for name in named if isinstance(name, str))
