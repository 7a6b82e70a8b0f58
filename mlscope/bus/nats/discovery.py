"""NATS service discovery (ADR-32): answers `$SRV.PING`, `$SRV.INFO` and `$SRV.STATS`."""

import json
import secrets
from datetime import UTC, datetime
from typing import Any

from mlscope.bus.bus import ServiceFacts, StatsSource
from mlscope.bus.nats.connection import Connection, Msg

_VERBS = ("PING", "INFO", "STATS")


class Discovery:
    """One announced service instance."""

    def __init__(self, connection: Connection, facts: ServiceFacts, stats: StatsSource) -> None:
        """`stats` is asked at every `$SRV.STATS`."""
        self.instance = secrets.token_hex(11)
        self._connection = connection
        self._facts = facts
        self._stats = stats
        self._started = datetime.now(UTC).isoformat().replace("+00:00", "Z")

    async def open(self) -> None:
        """Answer from now on."""
        for verb in _VERBS:
            for scope in ("", f".{self._facts.name}", f".{self._facts.name}.{self.instance}"):
                await self._connection.subscribe(f"$SRV.{verb}{scope}", self._received)

    def _received(self, message: Msg) -> None:
        if message.reply:
            verb = message.subject.split(".")[1]
            body = json.dumps(self.told(verb), default=str).encode()
            self._connection.send_soon(message.reply, body)

    def told(self, verb: str) -> dict[str, Any]:
        """Return the answer to a verb, as ADR-32 lays it out."""
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
            answer["endpoints"] = [{**self._endpoint(), "data": dict(self._stats())}]
        return answer

    def _endpoint(self) -> dict[str, Any]:
        subject = next(iter(self._facts.endpoints.values()), "")
        return {
            "name": self._facts.name,
            "subject": subject,
            "queue_group": self._facts.name,
            "num_requests": 0,
            "num_errors": 0,
            "last_error": "",
            "processing_time": 0,
            "average_processing_time": 0,
        }
