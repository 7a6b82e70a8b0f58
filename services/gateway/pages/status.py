"""The page of the cluster's own state: its services, and how far each is behind. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from mlscope.bus.streams import DURABLES
from mlscope.counts import many
from mlscope.metrics.declared import SERVICES
from mlscope.metrics.standing import ServiceFigures, Standing

_READ_BY = {"recorder": "collector", "spans": "collector", "queries": "collector"}
"""The services that read the durables which have another name than theirs."""


@dataclass(frozen=True, slots=True)
class InstanceRow:
    """One instance of a service; one that does not answer has a name alone."""

    service: str
    figures: ServiceFigures | None = None

    @property
    def state(self) -> str:
        """`ready` if it answers over the bus, else `silent`."""
        return "ready" if self.figures else "silent"

    def _number(self, source: str) -> float | None:
        return self.figures.number(source) if self.figures else None

    @property
    def name(self) -> str:
        """The agent's name, or the host of another service."""
        return (self.figures.agent or self.figures.host) if self.figures else ""

    @property
    def version(self) -> str:
        """The version of mlscope that it runs."""
        return self.figures.version if self.figures else ""

    @property
    def started_ns(self) -> int:
        """When it started, since the epoch; 0 if that is not known."""
        started_ns = int((self._number("process.started_s") or 0) * 1e9)
        return started_ns if 0 < started_ns < 2**63 else 0

    @property
    def restarts(self) -> int | None:
        """How often it was started again."""
        restarts = self._number("process.restarts")
        return None if restarts is None else int(restarts)

    @property
    def reconnects(self) -> int | None:
        """How often its connection came back."""
        reconnects = self._number("bus.reconnects")
        return None if reconnects is None else int(reconnects)

    @property
    def memory_bytes(self) -> float | None:
        """Its resident memory."""
        return self._number("process.memory_bytes")

    @property
    def cpu_ns(self) -> float | None:
        """The processor time that it used."""
        used_s = self._number("process.cpu_s")
        return None if used_s is None else used_s * 1e9

    @property
    def buried(self) -> int | None:
        """How many messages it could not use."""
        buried = self._number("bus.buried")
        return None if buried is None else int(buried)

    @property
    def unread(self) -> int | None:
        """How many facts of the log it could not read."""
        unread = self._number("bus.unread")
        return None if unread is None else int(unread)


@dataclass(frozen=True, slots=True)
class BacklogRow:
    """What one durable has still to do, for the service that reads it."""

    durable: str
    service: str
    stream: str
    waiting: int
    unsettled: int
    redelivered: int


@dataclass(frozen=True, slots=True)
class StatusView:
    """Every service with its instances, and every durable."""

    standing: Standing
    template: ClassVar[str] = "status.html"
    title: ClassVar[str] = "Status"

    @property
    def instances(self) -> list[InstanceRow]:
        """The instances that answer, and a row for each service of which none does."""
        rows = []
        for service in SERVICES:
            own = [figures for figures in self.standing.figures if figures.service == service]
            rows += [InstanceRow(service, figures) for figures in own] or [InstanceRow(service)]
        return rows

    @property
    def silent(self) -> list[str]:
        """The services of which no instance answers."""
        return [row.service for row in self.instances if row.figures is None]

    @property
    def unread(self) -> str:
        """Which services could not read how many facts, '' if every one reads all."""
        counts = [(row.service, row.unread) for row in self.instances if row.unread]
        return ", ".join(f"{service} {many(count, 'fact')}" for service, count in counts)

    @property
    def lost_evaluations(self) -> int:
        """How many evaluations lack rows in the database that the log says are stored."""
        return self._collected("lost_evaluations")

    @property
    def unsaved_evaluations(self) -> int:
        """How many evaluations have rows that no backup has."""
        return self._collected("unsaved_evaluations")

    @property
    def database_only_evaluations(self) -> int:
        """How many evaluations have rows that only the database has: no backup, no stream."""
        return self._collected("database_only_evaluations")

    @property
    def held_bytes(self) -> int:
        """The size of the batches in the log."""
        return self._collected("held_bytes")

    def _collected(self, figure: str) -> int:
        collectors = (own for own in self.standing.figures if own.service == "collector")
        return int(max((own.number(figure) for own in collectors), default=0))

    @property
    def backlogs(self) -> Sequence[BacklogRow]:
        """The durables that the log lists."""
        read = self.standing.backlogs or {}
        return [
            BacklogRow(
                durable.name,
                _READ_BY.get(durable.name, durable.name),
                durable.stream,
                read[durable.name].waiting,
                read[durable.name].unsettled,
                read[durable.name].redelivered,
            )
            for durable in DURABLES
            if durable.name in read
        ]

    def as_data(self) -> dict[str, Any]:
        """Return what the page shows, for programs."""
        shown = ("service", "state", "name", "version", "started_ns", "restarts", "reconnects")
        also = ("memory_bytes", "cpu_ns", "buried", "unread")
        return {
            "lost_evaluations": self.lost_evaluations,
            "unsaved_evaluations": self.unsaved_evaluations,
            "database_only_evaluations": self.database_only_evaluations,
            "held_bytes": self.held_bytes,
            "instances": [
                {field: getattr(row, field) for field in (*shown, *also)} for row in self.instances
            ],
            "backlogs": [
                {field: getattr(row, field) for field in BacklogRow.__slots__}
                for row in self.backlogs
            ],
        }
