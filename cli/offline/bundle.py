"""Reads a bundle: its plan is kept in memory, the facts of each run stay in the file."""

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mlscope.exchange.bundle import body_at, read_placed
from mlscope.exchange.errors import BundleBroken
from schemas.agent import AgentAnnounced, Announcement
from schemas.batch import OutputsPredicted, QueriesAnswered, TraceCaptured
from schemas.encoding.codec import decode
from schemas.encoding.errors import SchemaError
from schemas.evaluation import EvaluationPlanned, EvaluationRequested
from schemas.message import Fact
from schemas.plan import Plan
from schemas.request import Evaluate
from schemas.run import RunCompleted, RunFailed

_MEASURED = (TraceCaptured, QueriesAnswered, OutputsPredicted, RunCompleted, RunFailed)


@dataclass(frozen=True, slots=True)
class Bundle:
    """The plan, the machine, and the positions of each run's facts in the file."""

    path: Path
    evaluation: str
    plan: Plan
    announcement: Announcement
    #: for each run the file positions of its batches, then of its outcome; eight bytes a fact
    positions: Mapping[str, "array[int]"]
    #: device, inode, size and modification time of the file when it was checked
    version: tuple[int, ...]
    #: the request of the plan; older bundles have none
    request: Evaluate | None = None

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name

    @property
    def agent(self) -> str:
        """The machine's name."""
        return self.announcement.agent

    def holds(self, run: str) -> bool:
        """Tell whether the bundle has facts of a run."""
        return run in self.positions

    def facts(self, run: str) -> Iterator[Fact]:
        """Yield a run's facts in their order, reading one at a time.

        Raises BundleBroken, also when the file has changed since it was checked.
        """
        if not self.holds(run):
            return
        try:
            with self.path.open("rb") as file:
                for position in self.positions[run]:
                    if _version_of(self.path) != self.version:
                        raise BundleBroken(str(self.path), "was changed while it was imported")
                    yield _decode(self.path, body_at(file, position))
        except OSError as error:
            raise BundleBroken(str(self.path), error.strerror or str(error)) from error


def read(path: Path) -> Bundle:
    """Return a bundle after checking every fact, one at a time. Raises BundleBroken."""
    planned: EvaluationPlanned | None = None
    request: Evaluate | None = None
    announcements: list[Announcement] = []
    positions: dict[str, array[int]] = {}
    version = _version_of(path)
    for position, body in read_placed(path):
        fact = _decode(path, body)
        match fact:
            case EvaluationRequested():
                request = fact.request
            case EvaluationPlanned():
                planned = fact
            case AgentAnnounced():
                announcements.append(fact.announcement)
            case _ if isinstance(fact, _MEASURED):
                positions.setdefault(fact.run, array("Q")).append(position)
    if planned is None or len(announcements) != 1:
        raise BundleBroken(str(path), "does not hold the plan of exactly one machine")
    (announcement,) = announcements
    return Bundle(path, planned.evaluation, planned.plan, announcement, positions, version, request)


def _decode(path: Path, body: bytes) -> Fact:
    try:
        return decode(body)[1]
    except SchemaError as error:
        raise BundleBroken(str(path), str(error)) from error


def _version_of(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError as error:
        raise BundleBroken(str(path), error.strerror or str(error)) from error
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
