"""What must come of a trial: nothing lost, nothing doubled, all as without the fault (I/O)."""

import hashlib
import json
from collections.abc import Mapping

from schemas.status import EvaluationStatus
from schemas.values.identity import run_key
from tests.faults.causes import false_causes
from tests.faults.trials import Trial
from tests.faults.worlds import Content, World

_COUNTS = """
    SELECT 'query', run_key, count(*), count(DISTINCT query) FROM query GROUP BY run_key
    UNION ALL
    SELECT 'span', run_key, count(*), count(DISTINCT span) FROM span GROUP BY run_key
    UNION ALL
    SELECT 'output', run_key, count(*), count(DISTINCT (query, sample)) FROM output
    GROUP BY run_key
"""
_CONTENT = {
    # When it was due after the first query, and how it was answered.
    "asked": """SELECT query, block, size, due_ns - min(due_ns) OVER (), status, failed, error
       FROM query WHERE run_key = %s ORDER BY query""",
    "seen": """SELECT span.query, span.block, span.level, span_name.text, count(*),
       count(span.parent) FROM span JOIN span_name USING (run_key, name)
       WHERE run_key = %s GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4""",
    "answered": """SELECT query, sample, features::text FROM output
       WHERE run_key = %s ORDER BY 1, 2""",
}
_UNANSWERED = "SELECT query FROM query WHERE run_key = %s AND status = 2"
_SAID = """
    SELECT interrupted, message, caveats FROM run WHERE evaluation = %s ORDER BY run, attempt
"""


def content_of(world: World, key: int) -> dict[int, dict[str, str]]:
    """Return, by query, digests of what an attempt measured of it, without its times, by part."""
    rows: dict[int, dict[str, list[object]]] = {}
    for part, statement in _CONTENT.items():
        for query, *values in world.rows(statement, key):
            rows.setdefault(query, {}).setdefault(part, []).append(values)
    return {
        query: {
            part: hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16]
            for part, values in parts.items()
        }
        for query, parts in rows.items()
    }


def keys_of(status: EvaluationStatus) -> dict[str, int]:
    """Return the run key of the newest attempt of each run, by its level."""
    return {
        run.level.name.lower(): run_key(status.evaluation, run.run, run.attempt)
        for run in status.runs
    }


def contents_of(world: World, status: EvaluationStatus) -> Content:
    """Return what each run of an evaluation measured, by its level."""
    return {level: content_of(world, key) for level, key in keys_of(status).items()}


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


def has_tables(world: World, evaluation: str) -> bool:
    """Tell whether an evaluation has tables in the database."""
    return bool(world.rows("SELECT FROM analysis WHERE evaluation = %s LIMIT 1", evaluation))


def contents_differing(world: World, status: EvaluationStatus, undisturbed: Content) -> list[str]:
    """Return what is unlike an undisturbed evaluation, whose digests each query must have.

    A query that was lost on its way, as its row says, is there without what an agent measured.
    """
    found = []
    for level, key in keys_of(status).items():
        lost = {query for (query,) in world.rows(_UNANSWERED, key)}
        content, expected = content_of(world, key), undisturbed[level]
        unlike = {
            query: [
                part
                for part in _CONTENT
                if content.get(query, {}).get(part) != expected.get(query, {}).get(part)
            ]
            for query in sorted(expected.keys() | content.keys())
            if content.get(query) != expected.get(query) and query not in lost
        }
        if unlike or not lost <= content.keys():
            found.append(
                f"{level}: {len(unlike)} of {len(expected)} queries unlike: {unlike}; lost: {lost}"
            )
        said = sum(run.failed_queries for run in status.runs if run.level.name.lower() == level)
        if len(lost) != said:
            found.append(f"{level}: {len(lost)} queries were lost, and {said} said to have failed")
    return found


def rows_differing(world: World, status: EvaluationStatus) -> list[str]:
    """Return which rows are there twice, and which of earlier trials have changed since."""
    counts = counts_in(world)
    new = {key: rows for key, rows in counts.items() if key not in world.kept}
    doubled = [
        f"{key}: {rows} of {distinct}" for key, (rows, distinct) in new.items() if rows != distinct
    ]
    changed = [
        f"{key}: {counts.get(key)}, not {rows}"
        for key, rows in world.kept.items()
        if counts.get(key) != rows
    ]
    finished = set(keys_of(status).values())
    world.kept |= {key: rows for key, rows in new.items() if key[1] in finished}
    return doubled + changed


def wrongs(world: World, trial: Trial, status: EvaluationStatus, undisturbed: Content) -> list[str]:
    """Return what is wrong with how a trial ended; nothing, as it should be."""
    if status.state != "analyzed":
        return [f"{status.state}: {status.cause} {[run.cause for run in status.runs]}"]
    if keys_of(status).keys() != undisturbed.keys():
        return [f"runs: {status.runs}"]
    found = contents_differing(world, status, undisturbed) + rows_differing(world, status)
    said = said_of(world, status)
    return found + [f"false cause: {text}" for text in false_causes(trial.blows, said)]


def counts_unlike(load_rows: Mapping[str, tuple[int, int]], content: Content) -> bool:
    """Tell whether an undisturbed evaluation has other levels or queries than its load asks for."""
    queries = {level: len(of_level) for level, of_level in content.items()}
    return queries != {level: rows[0] for level, rows in load_rows.items()}
