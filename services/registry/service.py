"""The registry as a service: folds fleet and manifests, answers, notices who is lost."""

import asyncio
import contextlib
import logging
import time
from importlib.metadata import version
from typing import Any

from mlscope.bus.bus import Bus, ServiceFacts
from mlscope.bus.errors import BusError
from mlscope.bus.letters import dead_letter
from mlscope.manifests.errors import ManifestFaulty
from mlscope.settings import Settings
from schemas.agent import AgentAnnounced, AgentLost
from schemas.manifest import ManifestPublished
from schemas.message import derived_id
from schemas.request import PublishManifest, ShowCatalog, WithdrawManifest
from schemas.subjects import command_subject, facts_of
from services.registry.answers import Answers
from services.registry.bucket import CatalogBucket
from services.registry.decide import decide_back, decide_lost
from services.registry.errors import ManifestRefused
from services.registry.leases import Leases, is_held, lease_key
from services.registry.manifests import read_manifests
from services.registry.state import Memory, RegistryState, digest, evolve
from services.registry.texts import Texts

LEASES = "leases"
_AT_ONCE = 32
#: before a shipped manifest is tried again that the bus did not take
_AGAIN_S = 1.0
_log = logging.getLogger(__name__)


async def serve(bus: Bus, settings: Settings, stop: asyncio.Event) -> None:
    """Keep the catalog until `stop` is set."""
    registry = Registry(bus, settings)
    loops = (
        registry.follow(facts_of(AgentAnnounced), registry.fleet_known),
        registry.follow(facts_of(ManifestPublished), registry.manifests_known),
        registry.bucket.watch(),
        registry.watch_leases(),
        registry.open(),
        registry.look_after(),
        registry.work_off(),
    )
    tasks = [asyncio.create_task(loop) for loop in (*loops, _wait(stop))]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _wait(stop: asyncio.Event) -> None:
    await stop.wait()


class Registry:
    """One instance: its fold, its view of the leases, its answers."""

    def __init__(self, bus: Bus, settings: Settings) -> None:
        """Start from nothing; the loops of `serve` do the rest."""
        self.state = RegistryState(memory=_memory(settings))
        self.bucket = CatalogBucket(bus, 2 * settings.heartbeat_s)
        self._texts = Texts()
        self.fleet_known = asyncio.Event()
        self.manifests_known = asyncio.Event()
        self._leases_known = asyncio.Event()
        #: while hundreds of manifests come at once the bucket is mended behind the last one
        self._is_publishing = True
        self._leases = Leases()
        self._missing_since: dict[tuple[str, str], float] = {}
        self._bus = bus
        self._settings = settings
        self._answers = Answers(bus, self)

    async def follow(self, filter_subject: str, known: asyncio.Event) -> None:
        """Fold every fact on a filter, for ever; `known` is set once caught up."""
        async for recorded in self._bus.follow(filter_subject):
            if recorded is None:
                known.set()
                continue
            before, self.state = self.state, evolve(self.state, recorded)
            changed = (
                before.agents is not self.state.agents
                or before.manifests is not self.state.manifests
            )
            if changed and self._all_known() and not self._is_publishing:
                await self._mend()

    async def _mend(self) -> bool:
        """Bring the bucket up to the fold; False when it is not: `look_after` tries again."""
        try:
            return await self.bucket.mend(self._texts.of(self.state))
        except BusError as error:
            _log.warning("the catalog is not written for now: %s", error)
            return False

    def _all_known(self) -> bool:
        return self.fleet_known.is_set() and self.manifests_known.is_set()

    async def open(self) -> None:
        """Once caught up: publish what is shipped, write the bucket, answer; then stay."""
        await self.fleet_known.wait()
        await self.manifests_known.wait()
        await self._publish_shipped()
        self._is_publishing = False
        await self._mend()
        endpoints = {c.verb: c for c in (ShowCatalog, PublishManifest, WithdrawManifest)}
        for command in endpoints.values():
            subject = command_subject(command)
            await self._bus.answer(subject, self._answers.answer, queue="registry")
        await self._bus.announce(
            ServiceFacts(
                "registry",
                version("mlscope"),
                "Knows what can run where.",
                {verb: command_subject(command) for verb, command in endpoints.items()},
            ),
            self.stats,
        )
        await asyncio.Event().wait()

    def stats(self) -> dict[str, object]:
        """Return what `$SRV.STATS` tells: the digest of the fold and how far it has come."""
        return {
            "digest": digest(self.state),
            "sequence": {
                "FLEET": self.state.fleet_sequence,
                "CATALOG": self.state.catalog_sequence,
            },
            "agents": sum(each.state == "live" for each in self.state.agents.values()),
        }

    async def _publish_shipped(self) -> None:
        free = asyncio.Semaphore(_AT_ONCE)

        async def publish(shipped: Any) -> None:
            async with free:
                await self._publish_one(shipped)

        await asyncio.gather(*map(publish, await asyncio.to_thread(self._shipped)))

    async def _publish_one(self, manifest: Any) -> None:
        if isinstance(manifest, ManifestFaulty):
            await self._bury(manifest.file, str(manifest))
            return
        while True:
            try:
                await self._answers.publish(manifest)
            except ManifestRefused as error:
                await self._bury(f"{manifest.kind} {manifest.name}", error.refused.message)
            except BusError as error:
                _log.warning("shipped manifest not published yet: %s", error)
                await asyncio.sleep(_AGAIN_S)
                continue
            return

    def _shipped(self) -> list[Any]:
        return list(read_manifests(self._settings.manifests_folder))

    async def _bury(self, name: str, reason: str) -> None:
        _log.error("shipped manifest refused", extra={"manifest": name, "reason": reason})
        letter, _ = dead_letter("registry", reason, subject=name, body=b"")
        fact_id = derived_id(name, "dead.buried", reason)
        await self._bus.publish(letter, id=fact_id)

    async def watch_leases(self) -> None:
        """Take in leases as they are renewed and run out."""
        async for entry in self._bus.watch(LEASES):
            if entry is None:
                self._leases_known.set()
            else:
                self._leases = self._leases.seen(entry)

    async def look_after(self) -> None:
        """Record who is lost and who is back, and mend the bucket, every heartbeat."""
        await self._leases_known.wait()
        while True:
            await asyncio.sleep(self._settings.heartbeat_s)
            if not self._all_known():
                continue
            try:
                await self._record_lost()
                await self._record_back()
                await self.bucket.mend(self._texts.of(self.state))
            except BusError as error:
                _log.warning("looked after nobody: %s", error)

    async def _record_lost(self) -> None:
        """Record whose lease is gone for two heartbeats: a server that was away loses them all.

        A lease that another start of the agent holds is gone too.
        """
        now_s = time.monotonic()
        missing = decide_lost(self.state, self._leases.held, self._leases.revisions)
        lost = {(fact.agent, fact.incarnation): fact for fact in missing}
        since = {who: self._missing_since.get(who, now_s) for who in lost}
        self._missing_since = since
        for who, fact in lost.items():
            if now_s - since[who] < 2 * self._settings.heartbeat_s:
                continue
            if not is_held(await self._bus.get(LEASES, lease_key(fact.agent)), fact.incarnation):
                await self._bus.publish(fact, id=lost_id(fact))

    async def _record_back(self) -> None:
        for fact in list(decide_back(self.state, self._leases.held)):
            since_ns = self.state.agents[fact.agent].since_ns
            cause = f"{fact.agent} {fact.announcement.incarnation} back"
            await self._bus.publish(fact, id=derived_id(cause, fact.schema_name(), since_ns))

    async def work_off(self) -> None:
        """Acknowledge each fact of the fleet once the bucket shows it."""
        await self.fleet_known.wait()
        await self.manifests_known.wait()
        async for deliveries in self._bus.deliveries("registry", batch=64):
            await self.reached(fleet=max(each.recorded.sequence for each in deliveries))
            is_shown = await self._mend()
            for delivery in deliveries:
                with contextlib.suppress(BusError):
                    await (delivery.ack() if is_shown else delivery.retry())

    async def reached(self, *, fleet: int = 0, catalog: int = 0) -> None:
        """Return once the fold has come so far, or after a bounded wait."""
        pause_s = 0.001
        for _ in range(16):
            if self.state.fleet_sequence >= fleet and self.state.catalog_sequence >= catalog:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.5)


def _memory(settings: Settings) -> Memory:
    return Memory(int(settings.forget_agents_after_s * 1e9), settings.max_gone_agents)


def lost_id(fact: AgentLost) -> str:
    """Return the id of a loss: the same from every registry that noticed it."""
    cause = f"lease {fact.agent} {fact.incarnation}"
    return derived_id(cause, fact.schema_name(), fact.revision)
