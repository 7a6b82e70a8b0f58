"""Performs a trial: evaluates, strikes when the moment has come, and judges what came of it."""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field

from mlscope import Client
from mlscope.client.errors import ClientError
from mlscope.client.watching import Progress
from mlscope.evaluation.fold import ENDED
from schemas.status import EvaluationStatus
from tests.faults.digests import differing
from tests.faults.inject import Proof, awaited, faults
from tests.faults.logs import brokers_are_whole
from tests.faults.outcomes import (
    contents_of,
    counts_unlike,
    has_tables,
    rows_differing,
    said_of,
    wrongs,
)
from tests.faults.trials import STATES, Load, Moment, Trial
from tests.faults.worlds import Content, World, Worlds

ENDS_WITHIN_S = 240.0
TRIES = 3


class TooLate(Exception):
    """An evaluation ended before anything was done to it, as on a busy machine."""


@dataclass
class Result:
    """What became of a trial: what is wrong, what shows that the fault hit, what was said."""

    trial: Trial
    wrong: list[str] = field(default_factory=list)
    proof: Proof = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    attempts: int = 0
    took_s: float = 0.0


def has_come(moment: Moment, progress: Progress) -> bool:
    """Tell whether an evaluation has reached a moment, or is beyond it."""
    if STATES.index(progress.status.state) < STATES.index(moment.state):
        return False
    answered = max((reading.answered for reading in progress.readings.values()), default=0)
    return answered >= moment.answered or progress.status.state != moment.state


def ended(client: Client, evaluation: str) -> EvaluationStatus:
    """Return how an evaluation ended, asking again where nobody answers for a while."""
    deadline = time.monotonic() + ENDS_WITHIN_S
    status: EvaluationStatus | None = None
    while time.monotonic() < deadline:
        with suppress(ClientError):
            status = client.evaluation(evaluation).status()
            if status.state in ENDED:
                return status
        time.sleep(0.1)
    raise AssertionError(f"not ended after {ENDS_WITHIN_S:g} s: {status}")


def undisturbed(worlds: Worlds, world: World, load: Load) -> dict[str, Content]:
    """Return by level what an evaluation measures that nothing disturbs, made once for a load."""
    if load not in worlds.baselines:
        with world.client() as client:
            status = ended(client, client.run(**load.request).id)
        assert status.state == "analyzed", status
        content = contents_of(world, status)
        assert not counts_unlike(load.expected_rows, content), status
        spans = {run.level.name.lower(): run.stored.spans for run in status.runs if run.stored}
        assert spans == {level: rows[1] for level, rows in load.expected_rows.items()}, status
        assert rows_differing(world, status) == []
        worlds.baselines[load] = content
    return worlds.baselines[load]


def strike(client: Client, world: World, trial: Trial, proof: Proof) -> EvaluationStatus:
    """Evaluate, and do the faults when the moment has come; return how it ended."""
    evaluation = client.run(**trial.load.request)
    for progress in evaluation.watch():
        if progress.ended:
            raise TooLate
        if has_come(trial.moment, progress):
            break
    with faults(world, evaluation.id, trial.blows, proof):
        if trial.kind.startswith("clock"):
            ended(client, evaluation.id)
        time.sleep(trial.hold_s)
    return ended(client, evaluation.id)


def judge(worlds: Worlds, trial: Trial, result: Result) -> None:
    """Perform a trial in its world, and add to `result` what came of it."""
    world = worlds.world(trial.world)
    expected = undisturbed(worlds, world, trial.load)
    with world.client() as client:
        for _ in range(TRIES):
            with suppress(TooLate):
                status = strike(client, world, trial, result.proof)
                break
        else:
            raise TooLate
    if status.state == "analyzed":
        # Tables that a restored database lacks are computed again, once their rows are back.
        awaited(lambda: has_tables(world, status.evaluation), "that its tables are there")
    result.attempts = max((run.attempt for run in status.runs), default=0)
    result.said = said_of(world, status)
    result.wrong = wrongs(world, trial, status, expected)
    if unlike := asyncio.run(differing(world.folder)):
        result.wrong.append(f"state of {unlike} is not its log's")
    if not result.proof:
        result.wrong.append("nothing shows that the fault hit")
    if world.name == "three":
        # Else the next trial meets what is left of this one's fault.
        awaited(lambda: brokers_are_whole(world), "brokers that hear each other")
    world.await_well()


def perform(worlds: Worlds, trial: Trial) -> Result:
    """Return what came of a trial; whatever is raised meanwhile is wrong, too."""
    began_s, result = time.monotonic(), Result(trial)
    try:
        judge(worlds, trial, result)
    except Exception as error:  # noqa: BLE001 (the next trial has a cluster of its own)
        result.wrong.append(f"{type(error).__name__}: {error}")
    result.took_s = time.monotonic() - began_s
    return result


def why_skipped(worlds: Worlds, trial: Trial) -> str:
    """Return why a trial can't be tried on this machine; '' when it can."""
    if trial.needs_hosts and worlds.no_network:
        return f"NO WIRE IS CUT: {worlds.no_network}"
    reason = ""
    if trial.needs_disks:
        with suppress(AssertionError):  # a cluster that does not start fails its trial
            reason = worlds.world(trial.world).no_disks
    return f"NO DISK IS SPOILT: {reason}" if reason else ""
