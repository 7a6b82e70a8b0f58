"""The contents of the buckets `catalog` and `leases`, entry by entry. Mutable."""

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from mlscope.bus.records import Entry
from schemas.agent import Lease
from schemas.encoding.codec import decode_body, unpack
from schemas.encoding.errors import SchemaError
from schemas.manifest import (
    DatasetManifest,
    FrameworkManifest,
    HardwareManifest,
    Manifest,
    ModelManifest,
    ScenarioManifest,
    SoftwareManifest,
)
from schemas.message import Message
from schemas.status import AgentStatus, Catalog
from services.scheduler.placement.fleet import Attempt
from services.scheduler.shared_parts import SharedParts

_log = logging.getLogger(__name__)
_AGENT_KEY = "agent_"
_ISSUER_LEASE_KEY = "issuer-"
_AGENT_LEASE_KEY = "agent-"
# The names become parts of subjects: no wildcard may be among them.
_ATTEMPT = re.compile(r"([A-Za-z0-9_-]{1,64})/([A-Za-z0-9_-]{1,64})/([0-9]{1,9})")
_MOST_ATTEMPTS = 1024
"""Attempts of an agent that count: each may have to be looked for in the log."""

M = TypeVar("M", bound=Message)

_MANIFEST: TypeAdapter[Manifest] = TypeAdapter(Manifest)


@dataclass(slots=True)
class CatalogView:
    """The catalog of all entries that were taken so far."""

    #: of the newest entry taken
    revision: int = 0
    _members: dict[str, AgentStatus | Manifest] = field(default_factory=dict)
    _catalog: Catalog | None = None
    _shared: SharedParts = field(default_factory=SharedParts)

    def take(self, entry: Entry) -> bool:
        """Take an entry; return whether the catalog changed. Unreadable entries are left out."""
        self.revision = max(self.revision, entry.revision)
        member = _member_of(entry)
        before = self._members.pop(entry.key, None)
        if isinstance(member, AgentStatus):
            member = self._shared.of(member)
        if member is not None:
            self._members[entry.key] = member
        if member == before:
            return False
        self._catalog = None
        return True

    def newest_missing(self, entries: Iterable[Entry]) -> int:
        """Return the newest revision among entries that a watch has yet to deliver; 0 for none.

        A watch does not deliver the removal of a key that was gone before the watch began.
        """
        revisions = (
            entry.revision
            for entry in entries
            if entry.value is not None or entry.key in self._members
        )
        return max((revision for revision in revisions if revision > self.revision), default=0)

    def catalog(self) -> Catalog:
        """Return the catalog."""
        if self._catalog is None:
            members = [self._members[key] for key in sorted(self._members)]
            self._catalog = Catalog(
                agents=_of_kind(members, AgentStatus),
                models=_of_kind(members, ModelManifest),
                frameworks=_of_kind(members, FrameworkManifest),
                datasets=_of_kind(members, DatasetManifest),
                scenarios=_of_kind(members, ScenarioManifest),
                hardware=_of_kind(members, HardwareManifest),
                software=_of_kind(members, SoftwareManifest),
            )
        return self._catalog


def _of_kind(members: Iterable[AgentStatus | Manifest], kind: type[M]) -> tuple[M, ...]:
    return tuple(member for member in members if isinstance(member, kind))


def _member_of(entry: Entry) -> AgentStatus | Manifest | None:
    """Return the agent or manifest of a catalog entry; None if it was removed or is unreadable."""
    if entry.value is None:
        return None
    try:
        if entry.key.startswith(_AGENT_KEY):
            return decode_body(AgentStatus, entry.value)
        return _MANIFEST.validate_python(unpack(entry.value))
    except (SchemaError, ValidationError) as error:
        _log.warning("catalog entry %s cannot be read: %s", entry.key, error)
        return None


@dataclass(slots=True)
class LeaseView:
    """Which schedulers issue loads, and which attempts agents report to work on.

    `grace_s`: for so long an issuer counts as live after its lease is gone. `lease_s`: for so long
    a lease holds that is not renewed, by our clock: the broker's, which ends leases, may be set
    back.
    """

    grace_s: float
    lease_s: float
    _issuers: dict[str, float] = field(default_factory=dict)
    _renewed_s: dict[str, float] = field(default_factory=dict)
    #: seconds over which leases were heard: they stand still while the broker is away
    _heard_s: float = 0.0
    _last_s: float | None = None
    _busy: dict[str, tuple[Attempt, ...]] = field(default_factory=dict)
    _fetching_s: dict[str, dict[Attempt, float]] = field(default_factory=dict)

    def take(self, entry: Entry, now_s: float) -> None:
        """Take an entry of the bucket; `now_s` is a time of CLOCK_MONOTONIC."""
        if self._last_s is not None:
            self._heard_s += min(now_s - self._last_s, self.grace_s)
        self._last_s = now_s
        if entry.key.startswith(_ISSUER_LEASE_KEY):
            issuer = entry.key.removeprefix(_ISSUER_LEASE_KEY)
            self._issuers[issuer] = now_s if entry.value is None else float("inf")
            self._renewed_s[issuer] = self._heard_s
        elif entry.key.startswith(_AGENT_LEASE_KEY):
            self._take_agent(entry.key.removeprefix(_AGENT_LEASE_KEY), entry)

    def _take_agent(self, agent: str, entry: Entry) -> None:
        """Note what an `agent` does and fetches, as the entry of its lease says."""
        self._busy.pop(agent, None)
        self._fetching_s.pop(agent, None)
        if entry.value is None:
            return
        try:
            lease = decode_body(Lease, entry.value)
        except SchemaError:
            return
        if lease.busy:
            busy = map(_attempt_of, lease.busy[:_MOST_ATTEMPTS])
            self._busy[agent] = tuple(filter(None, busy))
        if lease.brought_s:
            self._fetching_s[agent] = {
                attempt: time_s
                for text, time_s in lease.brought_s.items()
                if (attempt := _attempt_of(text))
            }

    def issuers(self, now_s: float) -> frozenset[str]:
        """Return who holds a lease, or held it within the grace: a server may have been away."""
        silent_after_s = self.lease_s + self.grace_s
        for issuer, gone_s in list(self._issuers.items()):
            is_silent = self._heard_s - self._renewed_s[issuer] > silent_after_s
            if is_silent and gone_s == float("inf"):
                _log.warning(
                    "the scheduler %s has not renewed its lease for %.0f s, and the broker still "
                    "has the lease: the broker's clock was set back; the scheduler counts as gone",
                    issuer,
                    silent_after_s,
                )
            if is_silent or now_s > gone_s + self.grace_s:
                del self._issuers[issuer], self._renewed_s[issuer]
        return frozenset(self._issuers)

    def busy(self) -> dict[str, tuple[Attempt, ...]]:
        """Return the attempts that agents report to work on, by agent."""
        return dict(self._busy)

    def fetching_s(self) -> Mapping[str, Mapping[Attempt, float]]:
        """Return the seconds that agents spent on fetching the files of attempts, by agent."""
        return MappingProxyType(self._fetching_s)


def _attempt_of(text: str) -> Attempt | None:
    """Return the attempt of a text `EVALUATION/RUN/NUMBER`, or None."""
    parts = _ATTEMPT.fullmatch(text)
    return Attempt(parts[1], parts[2], int(parts[3])) if parts else None
