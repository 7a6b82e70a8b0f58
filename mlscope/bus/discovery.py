"""Answers to NATS service discovery (ADR-32): `$SRV.PING`, `$SRV.INFO` and `$SRV.STATS`."""

import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from mlscope.bus.access.rights import ping
from mlscope.bus.records import CommandCounts, ServiceInfo, StatsSource

CountsOf = Callable[[str], CommandCounts]
"""Returns the counts of the commands on a subject."""

_VERBS = ("PING", "INFO", "STATS")


class ServiceInstance:
    """One running instance of a service, as service discovery shows it."""

    def __init__(self, info: ServiceInfo, stats: StatsSource, counts: CountsOf) -> None:
        """Describe the instance by `info`; each `$SRV.STATS` calls `stats` and `counts`.

        `counts` is called once for each endpoint, with its subject.
        """
        self.instance = secrets.token_hex(11)
        self._info = info
        self._stats = stats
        self._counts = counts
        self._started = datetime.now(UTC).isoformat().replace("+00:00", "Z")

    @property
    def health_subject(self) -> str:
        """The subject of the health check's question, to this instance alone."""
        return ping(self._info.name, self.instance)

    def subjects(self) -> list[str]:
        """Return the subjects of questions to all services, to this service, to this instance."""
        name = self._info.name
        scopes = ("", f".{name}", f".{name}.{self.instance}")
        return [f"$SRV.{verb}{scope}" for verb in _VERBS for scope in scopes]

    def answer_to(self, subject: str) -> dict[str, Any]:
        """Return the answer, as JSON fields, to a question received on `subject`."""
        verb = subject.split(".")[1]
        answer: dict[str, Any] = {
            "type": f"io.nats.micro.v1.{verb.lower()}_response",
            "name": self._info.name,
            "id": self.instance,
            "version": self._info.version,
            "metadata": {},
        }
        if verb == "INFO":
            answer["description"] = self._info.description
            answer["endpoints"] = [
                {"name": name, "subject": subject, "queue_group": self._info.name}
                for name, subject in self._info.endpoints.items()
            ]
        if verb == "STATS":
            answer["started"] = self._started
            answer["endpoints"] = self._endpoint_stats()
        return answer

    def _endpoint_stats(self) -> list[dict[str, Any]]:
        """Return the statistics of each endpoint; the first also holds the service's own data."""
        endpoints = []
        for name, subject in (self._info.endpoints or {self._info.name: ""}).items():
            counts = self._counts(subject)
            endpoints.append(
                {
                    "name": name,
                    "subject": subject,
                    "queue_group": self._info.name,
                    "num_requests": counts.requests,
                    "num_errors": counts.errors,
                    "last_error": counts.last_error,
                    "num_open": counts.open,
                    "processing_time": counts.processing_ns,
                    "average_processing_time": counts.processing_ns // max(counts.requests, 1),
                }
            )
        endpoints[0]["data"] = dict(self._stats())
        return endpoints
