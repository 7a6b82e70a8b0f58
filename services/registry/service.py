"""The registry as a service: follows agents and manifests, answers commands, notices losses."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from mlscope.bus.asked import answer_all, endpoints_of
from mlscope.bus.bus import Bus
from mlscope.bus.envelopes import dead_letter
from mlscope.bus.errors import BusError
from mlscope.bus.records import ReceivedCommand, ServiceInfo
from mlscope.bus.unfolded import bury_unfolded
from mlscope.manifests.errors import ManifestFaulty
from mlscope.manifests.folders import read_manifests
from mlscope.serving import run_until_stopped
from mlscope.settings import Settings
from schemas.agent import AgentAnnounced, AgentLost, Lease
from schemas.encoding.codec import encode_body
from schemas.live.clock import CLOCK_SUBJECT, ClockRead
from schemas.manifest import ManifestPublished
from schemas.message import derived_id
from schemas.price import SetPrice
from schemas.publishing import PublishManifest, WithdrawManifest
from schemas.request import (
    ShowCatalog,
)
from schemas.subjects import facts_of
from services.registry.bucket import CatalogBucket
from services.registry.commands import RegistryCommands
from services.registry.decide import decide_back, decide_lost
from services.registry.errors import ManifestRefused
from services.registry.leases import Leases, is_held, lease_key
from services.registry.state import Memory, RegistryState, digest, evolve_or_pass_over
from services.registry.texts import CatalogTexts

LEASES = "leases"
_CONCURRENT_PUBLICATIONS = 32
#: pause before publishing a shipped manifest is retried
_RETRY_S = 1.0
_log = logging.getLogger(__name__)


async def serve(bus: Bus, settings: Settings, stop: asyncio.Event) -> None:
    """Run the registry on `bus`, by `settings`, until `stop` is set."""
    registry = Registry(bus, settings)
    await run_until_stopped(
        stop,
        registry.follow(facts_of(AgentAnnounced), registry.fleet_known),
        registry.follow(facts_of(ManifestPublished), registry.manifests_known),
        registry.bucket.watch(),
        registry.watch_leases(),
        registry.open(),
        registry.record_lost_and_returned(),
        registry.acknowledge_agent_facts(),
    )


class Registry:
    """One registry: its catalog, its view of the leases, its answers."""

    def __init__(self, bus: Bus, settings: Settings) -> None:
        """Start empty; the loops of `serve` fill it."""
        forget_after_ns = int(settings.forget_agents_after_s * 1e9)
        self.state = RegistryState(memory=Memory(forget_after_ns, settings.max_gone_agents))
        self._digested = (self.state, digest(self.state))
        self.bucket = CatalogBucket(bus, 2 * settings.heartbeat_s)
        self._texts = CatalogTexts()
        self.fleet_known = asyncio.Event()
        self.manifests_known = asyncio.Event()
        self._leases_known = asyncio.Event()
        #: why shipped manifests were refused, by kind and name, or by file
        self.refused: dict[str, str] = {}
        #: while hundreds of manifests are published, the bucket is written once after the last one
        self._is_publishing = True
        self._leases = Leases()
        self._missing_since: dict[tuple[str, str], float] = {}
        self._bus = bus
        self._settings = settings
        self._answers = RegistryCommands(bus, self)

    async def follow(self, filter_subject: str, caught_up: asyncio.Event) -> None:
        """Fold every fact on a filter, without end; set `caught_up` once all were read."""
        async for recorded in self._bus.follow(filter_subject):
            if recorded is None:
                caught_up.set()
                continue
            before = self.state
            self.state, error = evolve_or_pass_over(self.state, recorded)
            if error is not None:
                await bury_unfolded(self._bus, [(recorded, error)])
            changed = (
                before.agents is not self.state.agents
                or before.manifests is not self.state.manifests
            )
            if changed and self._all_known() and not self._is_publishing:
                await self._write_bucket()

    async def _write_bucket(self) -> bool:
        """Write the bucket; return False if that failed. It is written again at a heartbeat."""
        try:
            return await self.bucket.write_differences(self._texts.of(self.state))
        except BusError as error:
            _log.warning("the catalog is not written for now: %s", error)
            return False

    def _all_known(self) -> bool:
        return self.fleet_known.is_set() and self.manifests_known.is_set()

    async def open(self) -> None:
        """Once caught up: publish the shipped manifests, write the bucket, answer commands."""
        await self.fleet_known.wait()
        await self.manifests_known.wait()
        await self._publish_shipped()
        self._is_publishing = False
        await self._write_bucket()
        commands = (ShowCatalog, PublishManifest, WithdrawManifest, SetPrice)
        for command in commands:
            await answer_all(self._bus, command, self._answers.answer, queue="registry")
        await self._bus.answer(CLOCK_SUBJECT, read_clock, queue="registry")
        await self._bus.announce(
            ServiceInfo(
                "registry",
                version("mlscope"),
                "Knows what can run where.",
                endpoints_of(commands),
            ),
            self.stats,
        )
        await asyncio.Event().wait()

    def stats(self) -> dict[str, object]:
        """Return the data for `$SRV.STATS`: the digest of the catalog and the sequences folded."""
        if self._digested[0] is not self.state:
            # Once for each state: it takes all texts.
            self._digested = (self.state, digest(self.state))
        return {
            "digest": self._digested[1],
            "sequence": {
                "FLEET": self.state.fleet_sequence,
                "CATALOG": self.state.catalog_sequence,
            },
            "agents": sum(status.state == "live" for status in self.state.agents.values()),
        }

    async def _publish_shipped(self) -> None:
        free = asyncio.Semaphore(_CONCURRENT_PUBLICATIONS)

        async def publish(manifest: Any) -> None:
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
                    await asyncio.sleep(_RETRY_S)
                    continue
                return

        async def publish_in_turn(manifest: Any) -> None:
            async with free:
                await publish(manifest)

        folder = self._settings.manifests_folder
        shipped = await asyncio.to_thread(lambda: list(read_manifests(folder)))
        await asyncio.gather(*map(publish_in_turn, shipped))

    async def _bury(self, name: str, reason: str) -> None:
        self.refused[name] = reason
        _log.error("shipped manifest refused", extra={"manifest": name, "reason": reason})
        letter, _ = dead_letter("registry", reason, subject=name, body=b"")
        fact_id = derived_id(name, "dead.buried", reason)
        await self._bus.publish(letter, id=fact_id)

    async def watch_leases(self) -> None:
        """Follow the leases as they are renewed and expire, without end."""
        async for entry in self._bus.watch(LEASES):
            if entry is None:
                self._leases_known.set()
            else:
                self._leases = self._leases.after(entry, time.monotonic())

    async def record_lost_and_returned(self) -> None:
        """At every heartbeat, record lost and returned agents and write the bucket."""
        await self._leases_known.wait()
        while True:
            await asyncio.sleep(self._settings.heartbeat_s)
            if not self._all_known():
                continue
            try:
                await self._record_lost()
                for fact in list(decide_back(self.state, self._held_leases(time.monotonic()))):
                    since_ns = self.state.agents[fact.agent].since_ns
                    cause = f"{fact.agent} {fact.announcement.incarnation} back"
                    fact_id = derived_id(cause, fact.schema_name(), since_ns)
                    await self._bus.publish(fact, id=fact_id)
                await self.bucket.write_differences(self._texts.of(self.state))
            except BusError as error:
                _log.warning("lost and returned agents not recorded for now: %s", error)

    def _held_leases(self, now_s: float) -> Mapping[str, Lease]:
        """Return the leases that were renewed recently enough at `now_s` (monotonic)."""
        settings = self._settings
        return self._leases.renewed_since(now_s - settings.lease_ttl_s - settings.heartbeat_s)

    async def _record_lost(self) -> None:
        """Record agents whose lease is missing for two heartbeats.

        A server that was away loses all leases at once, which agents renew soon. A lease of another
        incarnation of the agent counts as missing, and one that is not renewed.
        """
        self._leases = self._leases.known(self.state.agents)
        now_s, revisions = time.monotonic(), self._leases.revisions
        missing = decide_lost(self.state, self._held_leases(now_s), revisions)
        lost = {(fact.agent, fact.incarnation): fact for fact in missing}
        since = {who: self._missing_since.get(who, now_s) for who in lost}
        self._missing_since = since
        for who, fact in lost.items():
            if now_s - since[who] < 2 * self._settings.heartbeat_s:
                continue
            entry = await self._bus.get(LEASES, lease_key(fact.agent))
            is_renewed = entry is not None and entry.revision > revisions.get(fact.agent, 0)
            if not is_renewed or not is_held(entry, fact.incarnation):
                await self._bus.publish(fact, id=lost_id(fact))

    async def acknowledge_agent_facts(self) -> None:
        """Acknowledge each fact about agents once the bucket contains it, without end."""
        await self.fleet_known.wait()
        await self.manifests_known.wait()
        async for deliveries in self._bus.deliveries("registry", batch=64):
            await self.reached(fleet=max(fact.recorded.sequence for fact in deliveries))
            is_shown = await self._write_bucket()
            for delivery in deliveries:
                with contextlib.suppress(BusError):
                    await (delivery.ack() if is_shown else delivery.retry())

    async def reached(self, *, fleet: int = 0, catalog: int = 0) -> None:
        """Return once the catalog includes these sequences, or after a bounded wait."""
        pause_s = 0.001
        for _ in range(16):
            if self.state.fleet_sequence >= fleet and self.state.catalog_sequence >= catalog:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.5)


async def read_clock(_: ReceivedCommand) -> bytes:
    """Return what the clock of this machine says, for agents to compare theirs."""
    now_ns = time.time_ns()
    return encode_body(ClockRead(received_ns=now_ns, answered_ns=now_ns), json_text=True)


def lost_id(fact: AgentLost) -> str:
    """Return the id of a loss: the same from every registry that notices it."""
    cause = f"lease {fact.agent} {fact.incarnation}"
    return derived_id(cause, fact.schema_name(), fact.revision)
