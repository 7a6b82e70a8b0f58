"""What the registry answers: `catalog`, `publish`, `withdraw`."""

from collections.abc import Callable
from typing import Protocol

from mlscope.bus.bus import Asked, Bus
from mlscope.bus.errors import BusError, Conflict
from mlscope.manifests.constraints import CONSTRAINTS
from mlscope.manifests.errors import BadConstraint
from schemas.codec import decode_body, encode_body, is_json
from schemas.errors import MalformedMessage
from schemas.manifest import Manifest
from schemas.message import Fact, Message, derived_id
from schemas.request import (
    CatalogChanged,
    PublishManifest,
    Refused,
    ShowCatalog,
    WithdrawManifest,
)
from schemas.subjects import ROOT, manifest_key
from services.registry.decide import decide_publish, decide_withdraw, names_of
from services.registry.errors import ManifestRefused
from services.registry.state import RegistryState, catalog_of, digest_of, evolve

_MOST_TRIES = 8
_Decided = tuple[CatalogChanged, Fact | None]


class Folded(Protocol):
    """Whoever keeps the catalog's state."""

    state: RegistryState

    async def reached(self, *, fleet: int = 0, catalog: int = 0) -> None:
        """Return once the fold has come so far, or after a bounded wait."""
        ...


class Answers:
    """Answers commands from the fold; changes go through the log, guarded by manifest."""

    def __init__(self, bus: Bus, folded: Folded) -> None:
        """Read and write over `bus`."""
        self._bus = bus
        self._folded = folded

    async def answer(self, asked: Asked) -> bytes:
        """Return the answer to a command in its own encoding."""
        return encode_body(await self._answered(asked), json_text=is_json(asked.body))

    async def _answered(self, asked: Asked) -> Message:
        verb = asked.subject.rsplit(".", 1)[-1]
        try:
            if verb == PublishManifest.verb:
                return await self.publish(decode_body(PublishManifest, asked.body).manifest)
            if verb == WithdrawManifest.verb:
                return await self.withdraw(decode_body(WithdrawManifest, asked.body))
            wish = decode_body(ShowCatalog, asked.body)
        except MalformedMessage as error:
            return malformed(error)
        except ManifestRefused as error:
            return error.refused
        except BusError as error:
            return Refused(error="unavailable", message=str(error) or "the log is away")
        try:
            return catalog_of(self._folded.state, wish.kind, wish.name, wish.version)
        except BadConstraint as error:
            return Refused(
                error="invalid",
                message=str(error),
                field="version",
                found=wish.version,
                allowed=CONSTRAINTS,
            )

    async def publish(self, manifest: Manifest) -> CatalogChanged:
        """Put a manifest into the catalog. Raises ManifestRefused, BusError."""
        key = manifest_key(manifest.kind, manifest.name, manifest.version)

        def decide(state: RegistryState) -> _Decided:
            return decide_publish(state.manifests.get(key), manifest, state.withdrawn.get(key, ""))

        return await self._change(key, decide)

    async def withdraw(self, wish: WithdrawManifest) -> CatalogChanged:
        """Take a manifest out of the catalog. Raises ManifestRefused, BusError."""
        key = manifest_key(wish.kind, wish.name, wish.version)

        def decide(state: RegistryState) -> _Decided:
            names = names_of(self._folded.state, wish.kind)
            return decide_withdraw(state.manifests.get(key), wish, names)

        return await self._change(key, decide)

    async def _change(
        self, key: str, decide: Callable[[RegistryState], _Decided]
    ) -> CatalogChanged:
        """Record what is decided of a manifest's story; anew where another wrote meanwhile."""

        async def once() -> CatalogChanged:
            state, last = await self._known(key)
            answer, fact = decide(state)
            await self._record(fact, key, last)
            return answer

        for _ in range(_MOST_TRIES - 1):
            try:
                return await once()
            except Conflict:
                continue
        return await once()

    async def _known(self, key: str) -> tuple[RegistryState, int]:
        """Return the fold of a manifest's story and its last sequence, from the log itself."""
        story = await self._bus.read(_story(key))
        state = RegistryState()
        for recorded in story:
            state = evolve(state, recorded)
        return state, story[-1].sequence if story else 0

    async def _record(self, fact: Fact | None, key: str, last: int) -> None:
        if fact is None:
            return
        text = digest_of(fact)
        fact_id = derived_id(f"{key} after {last}", fact.schema_name(), text)
        sequence = await self._bus.publish(fact, id=fact_id, expected=(_story(key), last))
        await self._folded.reached(catalog=sequence)


def _story(key: str) -> str:
    return f"{ROOT}.manifest.{key}.>"


def malformed(error: MalformedMessage) -> Refused:
    """Return the refusal of a body that fits no command."""
    return Refused(
        error="malformed",
        message=str(error),
        field=error.field,
        found=error.found,
        allowed=error.expected,
    )
