"""Whether a service answers: what it notes of itself when it is ready, and a question to it (I/O).

A process that runs and a file that exists say nothing of a service whose connection is gone or
whose event loop hangs. So readiness is an answer over the bus, by that loop, within a bound.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Self

from mlscope.bus.access.permissions import agent_inbox
from mlscope.bus.access.rights import health_inbox, ping
from mlscope.bus.nats import is_answered
from mlscope.settings import Settings

ANSWER_WITHIN_S = 5.0

Hearing = Literal["starting", "answers", "silent", "no broker"]
"""What a question found: not announced yet, an answer, none, or no server to ask through."""


@dataclass(frozen=True, slots=True)
class Announced:
    """One running instance of a service: its id in service discovery, and its process."""

    instance: str
    pid: int

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Return what a ready file says; None before the service has announced itself."""
        try:
            return cls(**json.loads(path.read_text("utf-8")))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def write(self, path: Path) -> None:
        """Write the ready file, whole or not at all."""
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        partial.write_text(json.dumps(asdict(self)), "utf-8")
        partial.replace(path)


def hear(settings: Settings, service: str, *, within_s: float = ANSWER_WITHIN_S) -> Hearing:
    """Ask the `service` whose key and ready file `settings` name, for `within_s` seconds."""
    announced = settings.ready_file and Announced.read(settings.ready_file)
    if not announced:
        return "starting"
    subject = ping(service, announced.instance)
    inbox = health_inbox(agent_inbox(settings.agent_id) if service == "agent" else service)
    try:
        answers = is_answered(settings, service, subject, inbox=inbox, within_s=within_s)
    except (OSError, ValueError, KeyError):
        # Also where something else than a broker greets at its address, or the key is unreadable.
        return "no broker"
    return "answers" if answers else "silent"


def count_silence(ready_file: Path, hearing: Hearing) -> int:
    """Count the silent answers in a row in a file beside the ready file, and return the count.

    Another `hearing` than `silent` begins anew. The file is a health check's only memory.
    """
    file = ready_file.with_name(f"{ready_file.name}.silent")
    if hearing != "silent":
        file.unlink(missing_ok=True)
        return 0
    try:
        count = int(file.read_text("ascii")) + 1
    except (FileNotFoundError, ValueError):
        count = 1  # the first, or a full disk has left the file empty
    file.write_text(str(count), "ascii")
    return count
