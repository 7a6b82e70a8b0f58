"""Which evaluations are hidden from whom: private ones, as the log says."""

import asyncio
from collections import OrderedDict

from mlscope.bus.bus import Answerer, Bus
from mlscope.bus.envelopes import refusal
from mlscope.bus.errors import BusError
from mlscope.bus.records import ReceivedCommand
from schemas.encoding.codec import decode_body
from schemas.encoding.errors import SchemaError
from schemas.evaluation import EvaluationRequested
from schemas.message import Command
from schemas.people import Asker
from schemas.subjects import ROOT, asker_of, request_of

_REQUESTS = f"{ROOT}.evaluation.*.requested"
_PAGE_FACTS = 200
"""Requests that are read at a time: all of a year's would take the memory of the analyzer."""
_REMEMBERED = 1000
_NEVER_REQUESTED = "never-requested"
"""An id of no evaluation: those have 16 hexadecimal digits."""


class Visibility:
    """The private evaluations, by who requested them; the log is read on whenever that counts."""

    def __init__(self, bus: Bus) -> None:
        """Read requests over `bus`, from the first one when a person first asks."""
        self._bus = bus
        self._private: dict[str, str] = {}
        #: the evaluations that were asked about last, of those that somebody requested
        self._requested: OrderedDict[str, None] = OrderedDict()
        self._sequence = 0
        self._turn = asyncio.Lock()

    async def hidden_from(self, asker: Asker) -> frozenset[str]:
        """Return the evaluations that an `asker` may not see. Raises BusError."""
        if asker.is_owner:
            return frozenset()
        async with self._turn:
            while page := await self._bus.read(
                _REQUESTS, after=self._sequence, at_most=_PAGE_FACTS
            ):
                self._sequence = page[-1].sequence
                self._private |= {
                    fact.evaluation: fact.requested_by
                    for recorded in page
                    if isinstance(fact := recorded.fact, EvaluationRequested)
                    and fact.request.visibility == "private"
                }
        return frozenset(
            evaluation
            for evaluation, requested_by in self._private.items()
            if not asker.may_see(requested_by, is_private=True)
        )

    def guarded(self, kind: type[Command], answerer: Answerer) -> Answerer:
        """Return an answerer of a `kind` of commands that knows nothing hidden from who asks.

        An evaluation with facts that cannot be read here may be private, and is hidden as well. One
        that nobody requested is refused in the same words: nobody can tell it from a hidden one.
        """

        async def answer(command: ReceivedCommand) -> bytes | None:
            asker = asker_of(command.subject)
            named = () if asker.is_owner else evaluations_in(kind, command.body)
            try:
                hidden = await self.hidden_from(asker)
                for evaluation in named:
                    # For a hidden one as much is read as for one that nobody requested: the time
                    # that an answer takes must not tell them apart.
                    asked_for = _NEVER_REQUESTED if evaluation in hidden else evaluation
                    if not await self._is_requested(asked_for) or self._bus.unread(evaluation):
                        return refusal("unknown", f"no evaluation {evaluation}", command.body)
            except BusError as error:
                return refusal("unavailable", f"not available: {error}", command.body)
            return await answerer(command)

        return answer

    async def _is_requested(self, evaluation: str) -> bool:
        """Tell whether somebody requested an evaluation. Raises BusError."""
        if evaluation not in self._requested:
            if not await self._bus.read(request_of(evaluation), at_most=1):
                return False
            self._requested[evaluation] = None
        self._requested.move_to_end(evaluation)
        if len(self._requested) > _REMEMBERED:
            self._requested.popitem(last=False)
        return True


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
