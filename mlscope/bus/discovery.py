"""What a service answers to NATS's own discovery (ADR-32). Pure but for its instance's name."""

import secrets
from datetime import UTC, datetime
from typing import Any

from mlscope.bus.bus import ServiceFacts, StatsSource

_VERBS = ("PING", "INFO", "STATS")


class Announced:
    """One announced service instance."""

    def __init__(self, facts: ServiceFacts, stats: StatsSource) -> None:
        """`stats` is asked at every `$SRV.STATS`."""
        self.instance = secrets.token_hex(11)
        self._facts = facts
        self._stats = stats
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
            answer["endpoints"] = [self._measured()]
        return answer

    def _measured(self) -> dict[str, Any]:
        return {
            "name": self._facts.name,
            "subject": next(iter(self._facts.endpoints.values()), ""),
            "queue_group": self._facts.name,
            "num_requests": 0,
            "num_errors": 0,
            "last_error": "",
            "processing_time": 0,
            "average_processing_time": 0,
            "data": dict(self._stats()),
        }
