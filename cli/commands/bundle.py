"""A bundle's facts by what they are needed for: the plan at hand, the rest in the file."""

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from schemas.agent import AgentAnnounced, Announcement
from schemas.batch import OutputsPredicted, QueriesAnswered, TraceCaptured
from schemas.codec import decode
from schemas.errors import SchemaError
from schemas.evaluation import EvaluationPlanned, EvaluationRequested
from schemas.message import Fact
from schemas.plan import Plan
from schemas.request import Evaluate
from schemas.run import RunCompleted, RunFailed
from services.agent.bundle import body_at, read_placed
from services.agent.errors import BundleBroken

_MEASURED = (TraceCaptured, QueriesAnswered, OutputsPredicted, RunCompleted, RunFailed)


@dataclass(frozen=True, slots=True)
class Bundle:
    """What was planned, on which machine, and where in the file each run's facts are."""

    path: Path
    evaluation: str
    plan: Plan
    announcement: Announcement
    #: run to the places of its batches, then that of its outcome; eight bytes a fact
    places: Mapping[str, "array[int]"]
    #: what the file looked like when it was checked
    version: tuple[int, ...]
    #: what its plan was made of; older bundles do not say
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
        """Whether anything was measured of a run."""
        return run in self.places

    def facts(self, run: str) -> Iterator[Fact]:
        """Yield a run's facts in the order they came, read one by one.

        Raises BundleBroken, also when the file is another than the one that was checked.
        """
        if not self.holds(run):
            return
        try:
            with self.path.open("rb") as file:
                for place in self.places[run]:
                    if _version_of(self.path) != self.version:
                        raise BundleBroken(str(self.path), "was changed while it was imported")
                    yield _fact_in(self.path, body_at(file, place))
        except OSError as error:
            raise BundleBroken(str(self.path), error.strerror or str(error)) from error


def read(path: Path) -> Bundle:
    """Return a bundle after checking all of it, one fact at a time. Raises BundleBroken."""
    planned: EvaluationPlanned | None = None
    request: Evaluate | None = None
    announcements: list[Announcement] = []
    places: dict[str, array[int]] = {}
    version = _version_of(path)
    for place, body in read_placed(path):
        fact = _fact_in(path, body)
        match fact:
            case EvaluationRequested():
                request = fact.request
            case EvaluationPlanned():
                planned = fact
            case AgentAnnounced():
                announcements.append(fact.announcement)
            case _ if isinstance(fact, _MEASURED):
                places.setdefault(fact.run, array("Q")).append(place)
    if planned is None or len(announcements) != 1:
        raise BundleBroken(str(path), "holds no plan of one machine")
    (told,) = announcements
    return Bundle(path, planned.evaluation, planned.plan, told, places, version, request)


def _fact_in(path: Path, body: bytes) -> Fact:
    try:
        return decode(body)[1]
    except SchemaError as error:
        raise BundleBroken(str(path), str(error)) from error


def _version_of(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError as error:
        raise BundleBroken(str(path), error.strerror or str(error)) from error
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
