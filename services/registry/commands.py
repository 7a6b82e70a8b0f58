"""The registry's answers to the commands `catalog`, `publish`, `withdraw` and `price`."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError, Conflict
from mlscope.bus.records import ReceivedCommand
from mlscope.manifests.constraints import CONSTRAINTS
from mlscope.manifests.digests import digest_of
from mlscope.manifests.errors import BadConstraint
from schemas.encoding.codec import decode_body, encode_body, is_json
from schemas.encoding.errors import MalformedMessage
from schemas.manifest import Manifest
from schemas.message import Fact, Message, derived_id
from schemas.price import AgentPriced, PriceKept, SetPrice
from schemas.publishing import CatalogChanged, PublishManifest, WithdrawManifest
from schemas.request import (
    Refused,
    ShowCatalog,
)
from schemas.subjects import ROOT, asker_of, manifest_key, subject_of
from services.registry.decide import decide_price, decide_publish, decide_withdraw, names_of
from services.registry.errors import ManifestRefused
from services.registry.state import RegistryState, catalog_of, evolve_or_pass_over

_MOST_TRIES = 8
_MOST_REFUSED = 20
_MOST_STORED, _LONGEST_QUESTION = 8, 1024
_Answer = TypeVar("_Answer", CatalogChanged, PriceKept)
_Decided = tuple[CatalogChanged, Fact | None]


class CatalogFold(Protocol):
    """The owner of the catalog's state."""

    state: RegistryState
    #: why shipped manifests were refused, by kind and name, or by file
    refused: dict[str, str]

    async def reached(self, *, fleet: int = 0, catalog: int = 0) -> None:
        """Return once the state includes these sequences, or after a bounded wait."""
        ...


class RegistryCommands:
    """Answers commands from the catalog's state; changes are guarded facts in the log."""

    def __init__(self, bus: Bus, folded: CatalogFold) -> None:
        """Read and write over `bus`."""
        self._bus = bus
        self._folded = folded
        #: answers that show the catalog, by their question, and of which state
        self._shown_catalogs: dict[bytes, bytes] = {}
        self._shown_state: tuple[RegistryState, dict[str, str]] | None = None

    async def answer(self, command: ReceivedCommand) -> bytes:
        """Return the answer to a command in its own encoding.

        A thousand agents take 50 ms to encode, and a page asks for them each time: the catalog is
        encoded once for each of its states. The newest questions are remembered, by when they were
        last asked.
        """
        if command.subject.rsplit(".", 1)[-1] != ShowCatalog.verb:
            return encode_body(await self._answered(command), json_text=is_json(command.body))
        now, before = (self._folded.state, self._folded.refused), self._shown_state
        if before is None or before[0] is not now[0] or before[1] != now[1]:
            self._shown_catalogs.clear()
            self._shown_state = now[0], dict(now[1])
        catalogs = self._shown_catalogs
        body = catalogs.pop(command.body, None)
        if body is None:
            body = encode_body(await self._answered(command), json_text=is_json(command.body))
        if len(command.body) < _LONGEST_QUESTION:
            catalogs[command.body] = body
        if len(catalogs) > _MOST_STORED:
            del catalogs[next(iter(catalogs))]
        return body

    async def _answered(self, command: ReceivedCommand) -> Message:
        verb, asker = command.subject.rsplit(".", 1)[-1], asker_of(command.subject)
        try:
            if verb == PublishManifest.verb:
                manifest = decode_body(PublishManifest, command.body).manifest
                return await self.publish(manifest, asker.name)
            if verb == WithdrawManifest.verb:
                return await self.withdraw(decode_body(WithdrawManifest, command.body), asker.name)
            if verb == SetPrice.verb:
                return await self.keep_price(decode_body(SetPrice, command.body), asker.name)
            selection = decode_body(ShowCatalog, command.body)
        except MalformedMessage as error:
            return malformed(error)
        except ManifestRefused as error:
            return error.refused
        except BusError as error:
            return Refused(error="unavailable", message=str(error) or "the log is unavailable")
        try:
            selected = (selection.kind, selection.name, selection.version)
            catalog = catalog_of(self._folded.state, *selected)
            first = dict(sorted(self._folded.refused.items())[:_MOST_REFUSED])
            return catalog.model_copy(update={"refused": first})
        except BadConstraint as error:
            return Refused(
                error="invalid",
                message=str(error),
                field="version",
                found=selection.version,
                allowed=CONSTRAINTS,
            )

    async def publish(self, manifest: Manifest, published_by: str = "") -> CatalogChanged:
        """Add a manifest to the catalog, as `published_by` asks. Raises ManifestRefused, BusError.

        Without a name, it is the cluster's user who asks, or the registry that starts.
        """
        key = manifest_key(manifest.kind, manifest.name, manifest.version)

        def decide(state: RegistryState) -> _Decided:
            announced = {
                runtime.framework.lower()
                for status in self._folded.state.agents.values()
                for runtime in status.announcement.runtimes
            }
            before, withdrawn = state.manifests.get(key), state.withdrawn.get(key, "")
            return decide_publish(before, manifest, withdrawn, announced, published_by)

        return await self._change(key, decide)

    async def withdraw(self, command: WithdrawManifest, withdrawn_by: str = "") -> CatalogChanged:
        """Remove a manifest from the catalog, as `withdrawn_by` asks.

        Raises ManifestRefused, BusError.
        """
        key = manifest_key(command.kind, command.name, command.version)

        def decide(state: RegistryState) -> _Decided:
            names = names_of(self._folded.state, command.kind)
            return decide_withdraw(state.manifests.get(key), command, names, withdrawn_by)

        return await self._change(key, decide)

    async def keep_price(self, command: SetPrice, set_by: str = "") -> PriceKept:
        """Keep the price of an agent as `set_by` asks. Raises ManifestRefused, BusError."""
        agent = command.agent

        def decide(state: RegistryState) -> tuple[PriceKept, Fact | None]:
            priced_agents = len(self._folded.state.prices)
            return decide_price(state.prices.get(agent), priced_agents, command, set_by)

        story = subject_of(AgentPriced(agent=agent))
        return await self._decide(story, decide, lambda last: self._folded.reached(fleet=last))

    async def _change(
        self, key: str, decide: Callable[[RegistryState], _Decided]
    ) -> CatalogChanged:
        """Record the fact decided from a manifest's story."""
        story = f"{ROOT}.manifest.{key}.>"
        return await self._decide(story, decide, lambda last: self._folded.reached(catalog=last))

    async def _decide(
        self,
        story: str,
        decide: Callable[[RegistryState], tuple[_Answer, Fact | None]],
        reached: Callable[[int], Awaitable[None]],
    ) -> _Answer:
        """Record the fact decided from a story; decide again after a conflict."""

        async def once() -> _Answer:
            # From the log itself, because the own state may be behind it.
            state, last = RegistryState(), 0
            for recorded in await self._bus.read(story):
                state, last = evolve_or_pass_over(state, recorded)[0], recorded.sequence
            answer, fact = decide(state)
            if fact is not None:
                fact_id = derived_id(f"{story} after {last}", fact.schema_name(), digest_of(fact))
                sequence = await self._bus.publish(fact, id=fact_id, expected=(story, last))
                await reached(sequence)
            return answer

        for _ in range(_MOST_TRIES - 1):
            try:
                return await once()
            except Conflict:
                continue
        return await once()


def malformed(error: MalformedMessage) -> Refused:
    """Return the refusal of a body that fits no command."""
    return Refused(
        error="malformed",
        message=str(error),
        field=error.field,
        found=error.found,
        allowed=error.expected,
    )
