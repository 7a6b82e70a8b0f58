"""What must come of a trial: nothing lost, nothing doubled, all as without the fault (I/O)."""

import hashlib
import json
from collections.abc import Mapping, Set

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
}
_ANSWERS = """SELECT sample, query, features::text FROM output WHERE run_key = %s ORDER BY 1, 2"""
_UNANSWERED = "SELECT query FROM query WHERE run_key = %s AND status = 2"
_SAID = """
    SELECT interrupted, message, caveats FROM run WHERE evaluation = %s ORDER BY run, attempt
"""


def digest_of(values: object) -> str:
    """Return a digest of values that JSON has."""
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16]


def content_of(world: World, key: int) -> Content:
    """Return what an attempt measured."""
    rows: dict[int, dict[str, list[object]]] = {}
    for part, statement in _CONTENT.items():
        for query, *values in world.rows(statement, key):
            rows.setdefault(query, {}).setdefault(part, []).append(values)
    answers: dict[int, list[tuple[int, str]]] = {}
    for sample, query, features in world.rows(_ANSWERS, key):
        answers.setdefault(sample, []).append((query, digest_of(features)))
    return Content(
        {
            query: {part: digest_of(values) for part, values in parts.items()}
            for query, parts in rows.items()
        },
        answers,
    )


def keys_of(status: EvaluationStatus) -> dict[str, int]:
    """Return the run key of the newest attempt of each run, by its level."""
    return {
        run.level.name.lower(): run_key(status.evaluation, run.run, run.attempt)
        for run in status.runs
    }


def contents_of(world: World, status: EvaluationStatus) -> dict[str, Content]:
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


def contents_differing(
    world: World, status: EvaluationStatus, undisturbed: Mapping[str, Content]
) -> list[str]:
    """Return what is unlike an undisturbed evaluation, whose digests each query must have.

    A query that was lost on its way, as its row says, is there without what an agent measured.
    """
    found = []
    for level, key in keys_of(status).items():
        lost = {query for (query,) in world.rows(_UNANSWERED, key)}
        content, expected = content_of(world, key), undisturbed[level]
        unlike = queries_unlike(content, expected, lost)
        if unlike or not lost <= content.queries.keys():
            found.append(
                f"{level}: {len(unlike)} of {len(expected.queries)} queries unlike: {unlike}; "
                f"lost: {lost}"
            )
        if others := answers_unlike(content, expected, lost):
            found.append(f"{level}: answers unlike, by sample: {others}; lost: {lost}")
        said = sum(run.failed_queries for run in status.runs if run.level.name.lower() == level)
        if len(lost) != said:
            found.append(f"{level}: {len(lost)} queries were lost, and {said} said to have failed")
    return found


def queries_unlike(content: Content, expected: Content, lost: Set[int]) -> dict[int, list[str]]:
    """Return the parts that are unlike, by query; those of queries that were lost may be."""
    unlike = {}
    for query in sorted((expected.queries.keys() | content.queries.keys()) - lost):
        parts, others = content.queries.get(query, {}), expected.queries.get(query, {})
        if parts != others:
            unlike[query] = [part for part in _CONTENT if parts.get(part) != others.get(part)]
    return unlike


def answers_unlike(
    content: Content, expected: Content, lost: Set[int]
) -> dict[int, list[tuple[int, str]]]:
    """Return the answers that are unlike, by sample.

    The first answer of a sample is kept: where its query was lost, maybe that of a later one.
    """
    unlike = {}
    for sample in expected.answers.keys() | content.answers.keys():
        answers, others = content.answers.get(sample, []), expected.answers.get(sample, [])
        if any(query in lost for query, _ in others):
            is_alike = {answer for _, answer in answers} <= {answer for _, answer in others}
        else:
            is_alike = answers == others
        if not is_alike:
            unlike[sample] = answers
    return unlike


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


def wrongs(
    world: World, trial: Trial, status: EvaluationStatus, undisturbed: Mapping[str, Content]
) -> list[str]:
    """Return what is wrong with how a trial ended; nothing, as it should be."""
    if status.state != "analyzed":
        return [f"{status.state}: {status.cause} {[run.cause for run in status.runs]}"]
    if keys_of(status).keys() != undisturbed.keys():
        return [f"runs: {status.runs}"]
    found = contents_differing(world, status, undisturbed) + rows_differing(world, status)
    said = said_of(world, status)
    return found + [f"false cause: {text}" for text in false_causes(trial.blows, said)]


def counts_unlike(
    load_rows: Mapping[str, tuple[int, int]], contents: Mapping[str, Content]
) -> bool:
    """Tell whether an undisturbed evaluation has other levels or queries than its load asks for."""
    queries = {level: len(content.queries) for level, content in contents.items()}
    return queries != {level: rows[0] for level, rows in load_rows.items()}
