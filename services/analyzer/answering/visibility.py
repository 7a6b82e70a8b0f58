"""Which evaluations are visible to whom: those that the log has a readable request of."""

import asyncio

from mlscope.bus.bus import Answerer, Bus
from mlscope.bus.envelopes import refusal
from mlscope.bus.errors import BusError
from mlscope.bus.records import ReceivedCommand
from schemas.encoding.codec import decode_body
from schemas.encoding.errors import SchemaError
from schemas.evaluation import EvaluationRequested
from schemas.message import Command
from schemas.people import Asker
from schemas.subjects import ROOT, asker_of

_REQUESTS = f"{ROOT}.evaluation.*.requested"
_PAGE_FACTS = 200
"""Requests that are read at a time: all of a year's would take the memory of the analyzer."""


class Visibility:
    """The evaluations that the log has; it is read on whenever that counts.

    Rows do not say whose they are. The database may have evaluations that the log lacks (it is
    newer or older than the database), or whose request cannot be read. Each of them may be private:
    only owners see it.
    """

    def __init__(self, bus: Bus) -> None:
        """Read requests over `bus`, from the first one when a person first asks."""
        self._bus = bus
        #: each evaluation with a readable request, and who requested it where it is private
        self._requesters: dict[str, str | None] = {}
        self._sequence = 0
        self._turn = asyncio.Lock()

    async def visible_to(self, asker: Asker) -> list[str] | None:
        """Return the evaluations that an `asker` may see; None: all there are. Raises BusError."""
        if asker.is_owner:
            return None
        await self._read_on()
        return [evaluation for evaluation in self._requesters if self._sees(asker, evaluation)]

    def guarded(self, kind: type[Command], answerer: Answerer) -> Answerer:
        """Return an answerer of a `kind` of commands that knows nothing hidden from who asks.

        An evaluation with facts that cannot be read here may be private, and is hidden as well. One
        that nobody requested is refused in the same words: nobody can tell it from a hidden one.
        """

        async def answer(command: ReceivedCommand) -> bytes | None:
            asker = asker_of(command.subject)
            if asker.is_owner:
                return await answerer(command)
            try:
                await self._read_on()
            except BusError as error:
                return refusal("unavailable", f"not available: {error}", command.body)
            for evaluation in evaluations_in(kind, command.body):
                if not self._sees(asker, evaluation) or self._bus.unread(evaluation):
                    return refusal("unknown", f"no evaluation {evaluation}", command.body)
            return await answerer(command)

        return answer

    def _sees(self, asker: Asker, evaluation: str) -> bool:
        """Tell whether an `asker` who is no owner may see an evaluation, by what was read so far.

        Nothing is read for a hidden one nor for one that nobody requested: the time that an answer
        takes does not tell them apart.
        """
        if evaluation not in self._requesters:
            return False
        requested_by = self._requesters[evaluation]
        return requested_by is None or asker.may_see(requested_by, is_private=True)

    async def _read_on(self) -> None:
        """Read the requests that were not read yet. Raises BusError."""
        async with self._turn:
            while page := await self._bus.read(
                _REQUESTS, after=self._sequence, at_most=_PAGE_FACTS
            ):
                self._sequence = page[-1].sequence
                for recorded in page:
                    if not isinstance(fact := recorded.fact, EvaluationRequested):
                        continue
                    if fact.request.visibility == "private":
                        self._requesters[fact.evaluation] = fact.requested_by
                    else:
                        self._requesters.setdefault(fact.evaluation, None)


def evaluations_in(kind: type[Command], body: bytes) -> frozenset[str]:
    """Return the evaluations that a command of a `kind` names; none where its `body` is another.

    It is decoded as the answerer decodes it: what that takes for a name is one here too.
    """
    try:
        command = decode_body(kind, body)
    except SchemaError:
        return frozenset()
    names = [getattr(command, name, "") for name in ("evaluation", "first", "second")]
    return frozenset(filter(None, [*names, *getattr(command, "others", ())]))
