"""The buckets `catalog` and `leases` as this scheduler sees them. Mutable, without I/O."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from pydantic import TypeAdapter, ValidationError

from mlscope.bus.bus import Entry
from schemas.agent import Lease
from schemas.codec import decode_body, unpack
from schemas.errors import SchemaError
from schemas.manifest import (
    DatasetManifest,
    FrameworkManifest,
    HardwareManifest,
    Manifest,
    ModelManifest,
    ScenarioManifest,
    SoftwareManifest,
)
from schemas.status import AgentStatus, Catalog

_log = logging.getLogger(__name__)
_AGENT = "agent_"
_ISSUER = "issuer-"
_AGENT_LEASE = "agent-"

Attempt = tuple[str, str, int]
"""evaluation, run, attempt"""

Known = AgentStatus | Manifest


@dataclass(slots=True)
class CatalogMirror:
    """The catalog, entry by entry."""

    #: of the newest entry taken in
    revision: int = 0
    _known: dict[str, Known] = field(default_factory=dict)
    _made: Catalog | None = None

    def take(self, entry: Entry) -> bool:
        """Take in an entry; return whether the catalog changed. What can't be read is left out."""
        self.revision = max(self.revision, entry.revision)
        found = _read(entry)
        before = self._known.pop(entry.key, None)
        if found is not None:
            self._known[entry.key] = found
        if found == before:
            return False
        self._made = None
        return True

    def lacks(self, entries: Iterable[Entry]) -> int:
        """Return the newest revision among entries that will be told of yet; 0 for none.

        A watch says nothing of a key that was gone before it began.
        """
        told = (each for each in entries if each.value is not None or each.key in self._known)
        return max((each.revision for each in told if each.revision > self.revision), default=0)

    def catalog(self) -> Catalog:
        """Return everything known now."""
        if self._made is None:
            known = [self._known[key] for key in sorted(self._known)]
            self._made = Catalog(
                agents=tuple(each for each in known if isinstance(each, AgentStatus)),
                models=tuple(each for each in known if isinstance(each, ModelManifest)),
                frameworks=tuple(each for each in known if isinstance(each, FrameworkManifest)),
                datasets=tuple(each for each in known if isinstance(each, DatasetManifest)),
                scenarios=tuple(each for each in known if isinstance(each, ScenarioManifest)),
                hardware=tuple(each for each in known if isinstance(each, HardwareManifest)),
                software=tuple(each for each in known if isinstance(each, SoftwareManifest)),
            )
        return self._made


_MANIFEST: TypeAdapter[Manifest] = TypeAdapter(Manifest)


def _read(entry: Entry) -> Known | None:
    if entry.value is None:
        return None
    try:
        if entry.key.startswith(_AGENT):
            return decode_body(AgentStatus, entry.value)
        return _MANIFEST.validate_python(unpack(entry.value))
    except (SchemaError, ValidationError) as error:
        _log.warning("catalog entry %s is of no use: %s", entry.key, error)
        return None


@dataclass(slots=True)
class LeaseMirror:
    """Which schedulers issue loads, and what agents say keeps them busy."""

    grace_s: float
    _issuers: dict[str, float] = field(default_factory=dict)
    _busy: dict[str, tuple[Attempt, ...]] = field(default_factory=dict)
    _brought: dict[str, dict[Attempt, float]] = field(default_factory=dict)

    def take(self, entry: Entry, now_s: float) -> None:
        """Take in an entry of the bucket at a time of CLOCK_MONOTONIC."""
        if entry.key.startswith(_ISSUER):
            issuer = entry.key.removeprefix(_ISSUER)
            self._issuers[issuer] = now_s if entry.value is None else float("inf")
        elif entry.key.startswith(_AGENT_LEASE):
            agent = entry.key.removeprefix(_AGENT_LEASE)
            self._busy.pop(agent, None)
            self._brought.pop(agent, None)
            lease = _lease(entry)
            if lease and lease.busy:
                self._busy[agent] = tuple(filter(None, map(_attempt, lease.busy)))
            if lease and lease.brought_s:
                told = ((_attempt(text), took_s) for text, took_s in lease.brought_s.items())
                self._brought[agent] = {each: took_s for each, took_s in told if each}

    def issuers(self, now_s: float) -> frozenset[str]:
        """Return who holds a lease, or held it within the grace: a server may have been away."""
        gone = [i for i, gone_s in self._issuers.items() if now_s > gone_s + self.grace_s]
        for issuer in gone:
            del self._issuers[issuer]
        return frozenset(self._issuers)

    def busy(self) -> dict[str, tuple[Attempt, ...]]:
        """Return what agents say that they work on, by agent."""
        return dict(self._busy)

    def brought_s(self) -> Mapping[str, Mapping[Attempt, float]]:
        """Return how long agents say that they brought files of what they work on, by agent."""
        return MappingProxyType(self._brought)


def _lease(entry: Entry) -> Lease | None:
    try:
        return None if entry.value is None else decode_body(Lease, entry.value)
    except SchemaError:
        return None


def _attempt(text: str) -> Attempt | None:
    """Return what a lease names, or None."""
    evaluation, _, rest = text.partition("/")
    run, _, number = rest.partition("/")
    return (evaluation, run, int(number)) if number.isdecimal() else None
