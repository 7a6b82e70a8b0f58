"""What a process needs to open a session: the worker's first words, and those of a replay."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack

from schemas.codec import decode_body, unpack
from schemas.plan import WorkOrder
from services.agent.allowances import allowances_of
from services.agent.bringing import brought_of
from services.agent.session import Session, open_session


@dataclass(frozen=True, slots=True)
class Reopening:
    """An order and its surroundings, as an agent sends them to a worker; a file holds them too."""

    words: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> "Reopening":
        """Return what `write` wrote. Raises OSError, MalformedMessage."""
        return cls(unpack(path.read_bytes()))

    def write(self, path: Path) -> None:
        """Write it to a file of the worker's own folder. Raises OSError."""
        kept = ("order", "manifests_folder", "brought", "allowed")
        path.write_bytes(msgpack.packb({name: self.words[name] for name in kept}))

    @property
    def order(self) -> WorkOrder:
        """Return the order whose session it is."""
        return decode_body(WorkOrder, self.words["order"])

    def open(self, scratch: Path) -> Session:
        """Open the session in this process and warm it up. Raises AgentError."""
        order = self.order
        return open_session(
            order.subject,
            order.session.batch_size,
            Path(self.words["manifests_folder"]),
            scratch,
            brought_of(self.words["brought"]),
            allowances_of(self.words["allowed"]),
        )
