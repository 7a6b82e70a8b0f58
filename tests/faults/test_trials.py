"""Fifty seeded trials: kill one process with SIGKILL in mid-evaluation; nothing is lost or doubled.

Six of them run in `make test`, all of them in `make test-faults`.
"""

import asyncio
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cli.cluster.state import read_state
from mlscope import Client
from mlscope.client.watching import Progress
from mlscope.settings import Settings
from schemas.status import EvaluationStatus
from schemas.values.identity import run_key
from tests.faults.digests import differing
from tests.faults.trials import STATES, VICTIMS, Moment, Trial, trial
from tests.faults.victims import kill

TRIALS = 50
IN_EVERY_TEST_RUN = (1, 4, 6, 14, 37, 44)
"""One seed a victim, for six of the nine.

The gateway only reads; `tests/flow/test_restart.py` and `tests/services/agent/host` kill an agent
and a worker in every test run, too.
"""


def marks_of(seed: int) -> list[pytest.MarkDecorator]:
    """Return the marks of a trial: all are faults, most of them too long for every test run."""
    return [pytest.mark.faults, *([pytest.mark.long] if seed not in IN_EVERY_TEST_RUN else [])]


SEEDS = [pytest.param(seed, marks=marks_of(seed)) for seed in range(TRIALS)]


def rows_of(cluster: Path, key: int) -> dict[str, tuple[int, int]]:
    """Return (rows, distinct rows) of one attempt in the tables `query` and `span`."""
    state = read_state(cluster)
    settings = Settings.read(
        {
            "MLSCOPE_DATABASE_URL": state.database_url,
            "MLSCOPE_DATABASE_PASSWORD_FILE": state.database_password_file,
        }
    )
    counted: dict[str, tuple[int, int]] = {}
    with psycopg.connect(settings.database_conninfo()) as session:
        for table, column in (("query", "query"), ("span", "span")):
            row: Any = session.execute(
                f'SELECT count(*), count(DISTINCT {column}) FROM "{table}" WHERE run_key = %s',
                (key,),
            ).fetchone()
            counted[table] = (row[0], row[1])
    return counted


def has_come(moment: Moment, progress: Progress) -> bool:
    """Tell whether an evaluation has reached a moment, or is beyond it."""
    if STATES.index(progress.status.state) < STATES.index(moment.state):
        return False
    answered = max((reading.answered for reading in progress.readings.values()), default=0)
    return answered >= moment.answered or progress.status.state != moment.state


def evaluate(cluster: Path, wanted: Trial) -> EvaluationStatus:
    """Ask, kill when the moment has come, and wait for the end."""
    with Client(data=cluster) as client:
        evaluation = client.run(**wanted.request)
        killed = False
        for progress in evaluation.watch():
            assert killed or not progress.ended, f"{wanted} ended before anything was killed"
            if not killed and has_come(wanted.kill_at, progress):
                killed = kill(cluster, wanted.victim)
        return evaluation.wait(60)


def test_every_test_run_kills_six_services_and_one_after_the_run() -> None:
    chosen = [trial(seed) for seed in IN_EVERY_TEST_RUN]
    expected = sorted(set(VICTIMS) - {"gateway", "agent", "worker"})
    assert sorted(one.victim for one in chosen) == expected
    assert {"requested", "running", "measured"} == {one.kill_at.state for one in chosen}
    assert set(IN_EVERY_TEST_RUN) <= set(range(TRIALS))


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_accepted_ends_analyzed_once(cluster: Path, seed: int) -> None:
    wanted = trial(seed)
    status = evaluate(cluster, wanted)
    assert status.state == "analyzed", f"{wanted}: {status.state} {status.cause} {status.runs}"
    assert {run.level.name.lower() for run in status.runs} == set(wanted.expected_rows)
    for run in status.runs:
        queries, spans = wanted.expected_rows[run.level.name.lower()]
        rows = rows_of(cluster, run_key(status.evaluation, run.run, run.attempt))
        assert rows == {"query": (queries, queries), "span": (spans, spans)}, (wanted, run)
    assert asyncio.run(differing(cluster)) == [], wanted
