"""What a service answers to NATS's own discovery (ADR-32). Pure but for its instance's name."""

import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from mlscope.bus.answering import Counts
from mlscope.bus.bus import ServiceFacts, StatsSource

Counted = Callable[[str], Counts]
"""Returns what became of the commands on a subject."""

_VERBS = ("PING", "INFO", "STATS")


class Announced:
    """One announced service instance."""

    def __init__(self, facts: ServiceFacts, stats: StatsSource, counted: Counted) -> None:
        """`stats` is asked at every `$SRV.STATS`, as is `counted` for each endpoint."""
        self.instance = secrets.token_hex(11)
        self._facts = facts
        self._stats = stats
        self._counted = counted
        self._started = datetime.now(UTC).isoformat().replace("+00:00", "Z")

    def subjects(self) -> list[str]:
        """Return where questions come: to every service, to this kind, to this instance."""
        name = self._facts.name
        scopes = ("", f".{name}", f".{name}.{self.instance}")
        return [f"$SRV.{verb}{scope}" for verb in _VERBS for scope in scopes]

    def told(self, subject: str) -> dict[str, Any]:
        """Return the answer to a question that came on `subject`."""
        verb = subject.split(".")[1]
        answer: dict[str, Any] = {
            "type": f"io.nats.micro.v1.{verb.lower()}_response",
            "name": self._facts.name,
            "id": self.instance,
            "version": self._facts.version,
            "metadata": {},
        }
        if verb == "INFO":
            answer["description"] = self._facts.description
            answer["endpoints"] = [
                {"name": name, "subject": subject, "queue_group": self._facts.name}
                for name, subject in self._facts.endpoints.items()
            ]
        if verb == "STATS":
            answer["started"] = self._started
            answer["endpoints"] = self._measured()
        return answer

    def _measured(self) -> list[dict[str, Any]]:
        """Return an endpoint a subject; the service's own data are with the first."""
        endpoints = self._facts.endpoints or {self._facts.name: ""}
        measured = [self._endpoint(name, subject) for name, subject in endpoints.items()]
        measured[0]["data"] = dict(self._stats())
        return measured

    def _endpoint(self, name: str, subject: str) -> dict[str, Any]:
        counts = self._counted(subject)
        return {
            "name": name,
            "subject": subject,
            "queue_group": self._facts.name,
            "num_requests": counts.requests,
            "num_errors": counts.errors,
            "last_error": counts.last_error,
            "processing_time": counts.processing_ns,
            "average_processing_time": counts.processing_ns // max(counts.requests, 1),
        }
