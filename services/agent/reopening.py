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
from services.agent.ceilings import NO_ROOF, Roof
from services.agent.collecting import Occasion
from services.agent.predictors import Opened
from services.agent.session import Place, Session, open_in
from services.agent.variants import subject_as, traces_first, watched_level


@dataclass(frozen=True, slots=True)
class Reopening:
    """An order and its surroundings, as an agent sends them to a worker; a file holds them too."""

    words: Mapping[str, Any]
    #: where this process may write
    scratch: Path = Path()

    @classmethod
    def read(cls, path: Path, scratch: Path) -> "Reopening":
        """Return what `write` wrote, for a process with a folder of its own.

        Raises OSError, MalformedMessage.
        """
        return cls(unpack(path.read_bytes()), scratch)

    def write(self, path: Path) -> None:
        """Write it to a file of the worker's own folder. Raises OSError."""
        kept = ("order", "manifests_folder", "brought", "allowed")
        path.write_bytes(msgpack.packb({name: self.words[name] for name in kept}))

    @property
    def order(self) -> WorkOrder:
        """Return the order whose session it is."""
        return decode_body(WorkOrder, self.words["order"])

    @property
    def roof(self) -> Roof:
        """Return its device's, as the agent measured it; a replay has no use for it."""
        told = self.words.get("roof")
        return NO_ROOF if told is None else Roof.of(told)

    def open(self) -> Session:
        """Open the session in this process, as its variant wants it. Raises AgentError."""
        order = self.order
        allowed = allowances_of(self.words["allowed"])
        return open_in(
            Place(
                self.scratch,
                allowed,
                traces_first=traces_first(order.session),
                occasion=self._occasion(order),
            ),
            subject_as(order.session.variant, order.subject),
            order.session.batch_size,
            Path(self.words["manifests_folder"]),
            brought_of(self.words["brought"]),
        )

    def _occasion(self, order: WorkOrder) -> Occasion | None:
        """Return what collectors are to see the opening for: what is asked, nothing opened yet."""
        level = watched_level(order.session)
        if level is None:
            return None
        subject = order.subject
        asked = Opened(
            framework=subject.framework,
            framework_version="",
            inputs=(),
            outputs=(),
            device=subject.device,
            provider="",
            precision="",
            threads=0,
            options=dict(subject.options),
        )
        return Occasion(asked, level, order.session.variant, subject.collectors, self)
