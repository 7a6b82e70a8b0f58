"""What must come of a trial: nothing lost, nothing doubled, all as without the fault (I/O)."""

import hashlib
import json
from typing import Any

from schemas.status import EvaluationStatus
from schemas.values.identity import run_key
from tests.faults.causes import false_causes
from tests.faults.trials import Load, Trial
from tests.faults.worlds import World

_COUNTS = """
    SELECT 'query', run_key, count(*), count(DISTINCT query) FROM query GROUP BY run_key
    UNION ALL
    SELECT 'span', run_key, count(*), count(DISTINCT span) FROM span GROUP BY run_key
"""
_CONTENT = (
    # What was asked: which query, when it was due after the first, and how it was answered.
    """SELECT query, block, size, due_ns - min(due_ns) OVER (), status, failed, error
       FROM query WHERE run_key = %s ORDER BY query""",
    # What was seen within each query.
    """SELECT span.query, span.block, span.level, span_name.text, count(*), count(span.parent)
       FROM span JOIN span_name USING (run_key, name)
       WHERE run_key = %s GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4""",
    # What was answered.
    """SELECT query, sample, features::text FROM output WHERE run_key = %s ORDER BY 1, 2""",
)
_SAID = """
    SELECT interrupted, message, caveats FROM run WHERE evaluation = %s ORDER BY run, attempt
"""


def digest_of(world: World, key: int) -> str:
    """Return the digest of all that an attempt measured but for its times."""
    rows = [world.rows(statement, key) for statement in _CONTENT]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]


def digests_of(world: World, status: EvaluationStatus) -> dict[str, str]:
    """Return the digest of each run of an evaluation, by its level."""
    return {
        run.level.name.lower(): digest_of(world, run_key(status.evaluation, run.run, run.attempt))
        for run in status.runs
    }


def counts_in(world: World) -> dict[tuple[str, int], tuple[int, int]]:
    """Return (rows, distinct rows) of every attempt in the tables `query` and `span`."""
    return {(table, key): (rows, distinct) for table, key, rows, distinct in world.rows(_COUNTS)}


def said_of(world: World, status: EvaluationStatus) -> list[str]:
    """Return every cause and caveat that the record has of an evaluation, of all attempts."""
    texts = [status.cause, *(run.cause for run in status.runs)]
    texts += [caveat for run in status.runs for caveat in run.caveats]
    for interrupted, message, caveats in world.rows(_SAID, status.evaluation):
        texts += [interrupted or "", message, *caveats]
    parts = (part.strip() for text in texts for part in text.split("; "))
    return sorted({part for part in parts if part})


def rows_differing(world: World, load: Load, status: EvaluationStatus) -> list[str]:
    """Return what is not as expected of the rows of an evaluation and of all before it."""
    counts = counts_in(world)
    for run in status.runs:
        key = run_key(status.evaluation, run.run, run.attempt)
        queries, spans = load.expected_rows[run.level.name.lower()]
        world.kept["query", key] = (queries, queries)
        world.kept["span", key] = (spans, spans)
    return [
        f"{table} of {key}: {counts.get((table, key))}, not {rows}"
        for (table, key), rows in world.kept.items()
        if counts.get((table, key)) != rows
    ]


def wrongs(world: World, trial: Trial, status: EvaluationStatus, undisturbed: Any) -> list[str]:
    """Return what is wrong with how a trial ended; nothing, as it should be."""
    if status.state != "analyzed":
        return [f"{status.state}: {status.cause} {[run.cause for run in status.runs]}"]
    if {run.level.name.lower() for run in status.runs} != set(trial.load.expected_rows):
        return [f"runs: {status.runs}"]
    found = rows_differing(world, trial.load, status)
    digests = digests_of(world, status)
    if digests != undisturbed:
        found.append(f"digests {digests}, undisturbed {undisturbed}")
    said = said_of(world, status)
    found += [f"false cause: {text}" for text in false_causes(trial.blows, said)]
    return found
