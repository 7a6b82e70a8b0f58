"""Accuracy: whether the answers are right, for the same opened models as the times.

Each sample of the dataset counts once for each opened model, with its first answer. Answers to
repeats are compared with it, and counted where they differ.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mlscope.accuracy import AccuracyError
from mlscope.counts import be, many, verb
from mlscope.quantities import number
from schemas.analysis import Table
from services.analyzer.building.charts import Axis, bars
from services.analyzer.building.table import (
    Analysis,
    bool_column,
    estimate_columns,
    int_column,
    make_table,
    text_column,
    with_interval,
)
from services.analyzer.frames.evaluation import Frames, RunRow
from services.analyzer.frames.predictions import Pool, pools_of
from services.analyzer.scoring import Judgement, judge

_OF_SAMPLES = ("samples", "questions")

FEW = 100
"""With fewer samples a share is a smoke check: its interval may be wider than 0.2."""


def accuracy(frames: Frames) -> Table:
    """Return the value of each metric for each opened model's answers."""
    context = frames.scoring_context
    if context.unscorable_reason:
        verdict = f"Accuracy is not available: {context.unscorable_reason}."
        return make_table(ANALYSIS, [], verdict, frames.caveats)
    rows: list[dict[str, Any]] = []
    caveats = list(frames.caveats)
    unanswered: dict[tuple[str, str], int] = {}
    for pool in pools_of(frames):
        name = pool.row.session or pool.row.run
        unanswered[pool.row.session, pool.row.opened] = pool.unanswered
        try:
            judgements = judge(pool.answers, context)
        except AccuracyError as error:
            caveats.append(f"{name}: the answers can't be judged: {error}")
            continue
        except (LookupError, TypeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
            caveats.append(f"{name}: the answers can't be judged: {reason}")
            continue
        rows += [_metric_row(pool, judgement, context.samples) for judgement in judgements]
        caveats += [f"{name}: {note}" for note in _notes(pool, judgements, context.samples)]
    return make_table(ANALYSIS, rows, _verdict(frames, rows, unanswered), caveats)


def _notes(pool: Pool, judgements: Sequence[Judgement], samples: int | None) -> Iterator[str]:
    """Yield the caveats about an opened model's accuracy."""
    if pool.differing:
        different_first = sum(pool.differing.values())
        yield (
            f"{many(len(pool.differing), 'sample')} got different answers when repeated,"
            f" {different_first} of them a different first answer; the first time counts"
        )
    if not judgements:
        return
    for outcome in (judgement.outcome for judgement in judgements):
        yield from (f"{outcome.name}: {caveat}" for caveat in outcome.caveats)
    judged = max(judgement.judged for judgement in judgements)
    if samples and judged < samples:
        yield (
            f"{judged} of the dataset's {many(samples, 'sample')} {verb(judged, 'was', 'were')} "
            "judged; more queries, or `--outputs`, judge more"
        )
    if not pool.failed and not pool.failed_samples:
        return
    failed = f"{many(pool.failed, 'query')} failed"
    if pool.failed_samples:
        partly = many(pool.failed_samples, "sample")
        failed += f", and {partly} of partly answered queries"
    yield (
        f"{failed}: samples without an answer are not judged,"
        f" {pool.unanswered} of the samples {verb(pool.unanswered, 'has', 'have')} none"
    )


def _metric_row(pool: Pool, judgement: Judgement, samples: int | None) -> dict[str, Any]:
    """Return the row of a metric, a `judgement` of the answers of `pool`.

    `samples` is the number of samples in the dataset, None where unknown.
    """
    row, outcome = pool.row, judgement.outcome
    # Only shares of samples have Wilson's interval: they are k of n.
    interval = outcome.interval.method if outcome.interval else ""
    hits = None
    if interval == "Wilson" and outcome.value is not None:
        hits = round(outcome.value * outcome.n)
    unanswered = pool.unanswered if judgement.counts in _OF_SAMPLES else 0
    return {
        "agent": row.agent,
        "session": row.session,
        "batch_size": row.batch_size,
        "metric": outcome.name,
        **with_interval("value", outcome.value, outcome.interval),
        "unit": judgement.unit,
        "hits": hits,
        "n": outcome.n,
        "counts": judgement.counts,
        "kind": "smoke check" if judgement.judged < FEW else "accuracy",
        "judged": judgement.judged,
        "excluded": outcome.excluded + unanswered,
        "dataset": row.dataset,
        "dataset_samples": samples,
        "method": outcome.method,
        "interval": interval,
        "repeats_compared": pool.compared,
        "samples_differing": len(pool.differing),
        "build": build_of(row),
        "opened": row.opened,
        "same_build": len({build_of(run) for run in pool.rows}) == 1,
        "runs": ", ".join(run.run for run in pool.rows),
    }


def build_of(row: RunRow) -> str:
    """Return a digest of all that answers depend on: model, files, framework, device, options."""
    conditions = row.conditions
    parts: Mapping[str, Any] = {
        "model": f"{row.model}:{row.model_version}",
        "framework": f"{row.framework} {row.framework_version}",
        "batch_size": row.batch_size,
        **{name: conditions.get(name) for name in ("device", "provider", "precision", "threads")},
        "options": conditions.get("options"),
        "checksums": conditions.get("checksums"),
    }
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _verdict(
    frames: Frames, rows: Sequence[Mapping[str, Any]], unanswered: Mapping[tuple[str, str], int]
) -> str:
    judged = [row for row in rows if row["value"] is not None]
    if not judged:
        has_outputs = any(run.outputs.height for run in frames.measured)
        reason = "the dataset has no ground truth for the answered samples"
        return f"No accuracy: {reason if has_outputs else 'no answer was stored'}."
    first = judged[0]
    pool = first["session"], first["opened"]
    same = [row for row in judged if (row["session"], row["opened"]) == pool]
    values = ", ".join(_metric_text(row) for row in same)
    if failed := unanswered[pool]:
        values += f"; {many(failed, 'sample')} failed and {be(failed)} not counted"
        if _is_share(first):
            total = first["n"] + failed
            values += f"; counted as wrong: {first['metric']} {first['hits']} of {total}"
    further = len({(row["session"], row["opened"]) for row in judged}) - 1
    sessions = f"; the table has {many(further, 'further session')}" if further else ""
    title = "Smoke check" if first["kind"] == "smoke check" else "Accuracy"
    build = "same build as the times" if first["same_build"] else "different builds"
    return f"{title} ({many(first['judged'], 'sample')}, {build}): {values}{sessions}."


def _metric_text(row: Mapping[str, Any]) -> str:
    """Return a metric for a sentence: k of n, or the value, with its interval."""
    low, high = row["value_low"], row["value_high"]
    is_share = _is_share(row)
    value = f"{row['hits']} of {row['n']}" if is_share else number(row["value"])
    value += "" if row["unit"] == "1" else f" {row['unit']}"
    if low is None or high is None:
        return f"{row['metric']} {value}"
    ends = f"{low:.1%} to {high:.1%}" if is_share else f"{number(low)} to {number(high)}"
    return f"{row['metric']} {value} ({ends})"


def _is_share(row: Mapping[str, Any]) -> bool:
    return row["unit"] == "1" and row["hits"] is not None


ANALYSIS = Analysis(
    name="accuracy",
    title="Whether the answers are right",
    source=(
        "The answers in the collector's table `output`, of the same attempts as the times in the "
        "other tables, against the ground truth of their dataset; formulas: mlscope.accuracy."
    ),
    columns=(
        text_column("agent", "The agent that ran it."),
        text_column("session", "The session, in which one model was opened."),
        int_column("batch_size", "Samples per query."),
        text_column(
            "metric", "Name of the metric, such as top-1, mAP, mIoU, PSNR, F1 or word error rate."
        ),
        *estimate_columns("value", "Value of the metric, in `unit`; shares are from 0 to 1.", "1"),
        text_column("unit", "Unit of the value: 1 or dB."),
        int_column("hits", "Correct samples, where the value is their share of n; else null."),
        int_column("n", "Number of `counts` that the value is computed from."),
        text_column(
            "counts", "Unit of `n`, such as samples, true shapes, labelled pixels or true words."
        ),
        text_column("kind", f"smoke check with fewer than {FEW} judged samples, else accuracy."),
        int_column("judged", "Samples judged, each once."),
        int_column(
            "excluded", "Samples left out of `n`: without a label, a place or a defined value."
        ),
        text_column("dataset", "Dataset and version."),
        int_column("dataset_samples", "Samples in the dataset; null where unknown."),
        text_column("method", "Method of the metric."),
        text_column("interval", "Method of the interval; '' without one."),
        int_column(
            "repeats_compared",
            "Answers to repeated samples that were compared with the first answer.",
        ),
        int_column("samples_differing", "Samples with a different answer in a repeat."),
        text_column("build", "Digest of model, files, framework, device, precision and options."),
        text_column("opened", "Id of the opened model: loaded once, in one worker."),
        bool_column("same_build", "Whether all its timed runs used this build."),
        text_column(
            "runs", "The runs that gave these answers; their times are under the same names."
        ),
    ),
    compute=accuracy,
    chart=bars(("metric", "Metric"), Axis("value", "Value"), "n", "dataset", facet="agent"),
)
