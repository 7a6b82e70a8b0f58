"""A bundle's facts by what they are needed for."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from schemas.agent import AgentAnnounced, Announcement
from schemas.batch import OutputsPredicted, QueriesAnswered, TraceCaptured
from schemas.codec import decode
from schemas.errors import SchemaError
from schemas.evaluation import EvaluationPlanned
from schemas.plan import Plan
from schemas.run import RunCompleted, RunFailed
from services.agent.errors import BundleBroken
from services.agent.offline import read_bundle


@dataclass(frozen=True, slots=True)
class Bundle:
    """What was planned, on which machine, and each run's encoded facts in the order they came."""

    name: str
    evaluation: str
    agent: str
    plan: Plan
    announcement: Announcement
    #: run to the envelopes of its batches, then that of its outcome
    facts: Mapping[str, tuple[bytes, ...]]


def read(path: Path) -> Bundle:
    """Return a bundle, in memory as large as its file. Raises BundleBroken."""
    planned: EvaluationPlanned | None = None
    announcements: list[Announcement] = []
    facts: dict[str, list[bytes]] = {}
    for body in read_bundle(path):
        try:
            fact = decode(body)[1]
        except SchemaError as error:
            raise BundleBroken(str(path), str(error)) from error
        match fact:
            case EvaluationPlanned():
                planned = fact
            case AgentAnnounced():
                announcements.append(fact.announcement)
            case TraceCaptured() | QueriesAnswered() | OutputsPredicted():
                facts.setdefault(fact.run, []).append(body)
            case RunCompleted() | RunFailed():
                facts.setdefault(fact.run, []).append(body)
    if planned is None or len(announcements) != 1:
        raise BundleBroken(str(path), "holds no plan of one machine")
    return Bundle(
        name=path.name,
        evaluation=planned.evaluation,
        agent=announcements[0].agent,
        plan=planned.plan,
        announcement=announcements[0],
        facts={run: tuple(bodies) for run, bodies in facts.items()},
    )
