"""Accuracy: whether the answers are right, of the same opened models as the times.

Each sample of the dataset counts once for each opened model, with its first answer, however often
it came; repeats are compared with that and counted where they differ.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mlscope.accuracy import AccuracyError, Outcome
from mlscope.counts import be, many, verb
from schemas.analysis import Table
from services.analyzer.frames import Frames, RunRow
from services.analyzer.judging import Judgement, judge
from services.analyzer.predictions import Pool, pools_of
from services.analyzer.tables.table import (
    Analysis,
    estimate,
    made,
    text,
    truth,
    whole,
    with_interval,
)

_OF_SAMPLES = ("samples", "questions")

FEW = 100
"""Samples below which a share is a smoke check: its interval is wider than 0.2 at worst."""


def accuracy(frames: Frames) -> Table:
    """Return what each metric says of each opened model's answers."""
    if frames.aim.hopeless:
        verdict = f"Accuracy is not available: {frames.aim.hopeless}."
        return made(ANALYSIS, [], verdict, frames.caveats)
    rows: list[dict[str, Any]] = []
    caveats = list(frames.caveats)
    lost: dict[tuple[str, str], int] = {}
    for pool in pools_of(frames):
        lost[pool.row.session, str(pool.row.conditions.get("opened") or "")] = pool.lost
        try:
            found = judge(pool.answers, frames.aim)
        except (AccuracyError, LookupError, TypeError, ValueError) as error:
            caveats.append(f"{_named(pool)}: the answers can't be judged: {_words(error)}")
            continue
        rows += [_cells(pool, each, frames.aim.samples) for each in found]
        caveats += [f"{_named(pool)}: {note}" for note in _notes(pool, found, frames.aim.samples)]
    return made(ANALYSIS, rows, _verdict(frames, rows, lost), caveats)


def _named(pool: Pool) -> str:
    return pool.row.session or pool.row.run


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, AccuracyError) else f"{type(error).__name__}: {error}"


def _notes(pool: Pool, found: Sequence[Judgement], samples: int | None) -> Iterator[str]:
    """Yield what a reader must know of an opened model's accuracy."""
    if pool.answers and pool.differing:
        other = sum(pool.differing.values())
        yield (
            f"{many(len(pool.differing), 'sample')} got other answers when asked for again,"
            f" {other} of them with another first answer; the first one counts"
        )
    if not found:
        return
    for judgement in found:
        yield from (f"{judgement.outcome.name}: {each}" for each in judgement.outcome.caveats)
    judged = max(judgement.judged for judgement in found)
    if samples and judged < samples:
        yield (
            f"{judged} of the dataset's {many(samples, 'sample')} {verb(judged, 'was', 'were')} "
            "judged; more queries, or `--outputs`, reach more"
        )
    if pool.failed or pool.failed_samples:
        what = f"{many(pool.failed, 'query')} failed"
        if pool.failed_samples:
            lost = many(pool.failed_samples, "sample")
            was = verb(pool.failed_samples, "was", "were")
            what += f", others were answered in part ({lost} {was} not)"
        yield (
            f"{what}: samples without an answer are not judged,"
            f" {pool.lost} of the samples {verb(pool.lost, 'has', 'have')} none"
        )


def _cells(pool: Pool, told: Judgement, samples: int | None) -> dict[str, Any]:
    row, outcome = pool.row, told.outcome
    return {
        "agent": row.agent,
        "session": row.session,
        "batch_size": row.batch_size,
        "metric": outcome.name,
        **with_interval("value", outcome.value, outcome.interval),
        "unit": told.unit,
        "hits": _hits(outcome),
        "n": outcome.n,
        "counts": told.counts,
        "kind": "smoke check" if told.judged < FEW else "accuracy",
        "judged": told.judged,
        "excluded": outcome.excluded + (pool.lost if told.counts in _OF_SAMPLES else 0),
        "dataset": row.dataset,
        "dataset_samples": samples,
        "method": outcome.method,
        "interval": outcome.interval.method if outcome.interval else "",
        "repeats_compared": pool.compared,
        "samples_differing": len(pool.differing),
        "build": build_of(row),
        "opened": str(row.conditions.get("opened") or ""),
        "same_build": len({build_of(each) for each in pool.rows}) == 1,
        "runs": ", ".join(each.run for each in pool.rows),
    }


def _hits(outcome: Outcome) -> int | None:
    """Return k of `k of n`: only shares of samples have Wilson's interval."""
    is_share = outcome.interval is not None and outcome.interval.method == "Wilson"
    return round(outcome.value * outcome.n) if is_share and outcome.value is not None else None


def build_of(row: RunRow) -> str:
    """Return a digest of what answers depend on: model, files, framework, device and options."""
    told = row.conditions
    parts: Mapping[str, Any] = {
        "model": f"{row.model}:{row.model_version}",
        "framework": f"{row.framework} {row.framework_version}",
        "batch_size": row.batch_size,
        **{name: told.get(name) for name in ("device", "provider", "precision", "threads")},
        "options": told.get("options"),
        "checksums": told.get("checksums"),
    }
    text_ = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text_.encode()).hexdigest()[:12]


def _verdict(
    frames: Frames, rows: Sequence[Mapping[str, Any]], lost: Mapping[tuple[str, str], int]
) -> str:
    judged = [row for row in rows if row["value"] is not None]
    if not judged:
        kept = any(run.outputs.height for run in frames.measured)
        why = "the dataset says of no answered sample what is right"
        return f"No accuracy: {why if kept else 'no answer was kept'}."
    first = judged[0]
    same = [row for row in judged if (row["session"], row["opened"]) == _place(first)]
    said = ", ".join(_said(row) for row in same) + _failed(first, lost[_place(first)])
    others = len({_place(row) for row in judged}) - 1
    more = f"; other sessions are in the table: {others}" if others else ""
    head = "Smoke check" if first["kind"] == "smoke check" else "Accuracy"
    build = "same build as the times" if first["same_build"] else "of builds that differ"
    of = f"{many(first['judged'], 'sample')}, {build}"
    return f"{head} ({of}): {said}{more}."


def _failed(row: Mapping[str, Any], lost: int) -> str:
    """Return what to say of samples that failed, with the share if each of them were wrong."""
    if not lost:
        return ""
    said = f"; {many(lost, 'sample')} failed and {be(lost)} not counted"
    if row["unit"] != "1" or row["hits"] is None:
        return said
    return f"{said}; counted as wrong: {row['metric']} {row['hits']} of {row['n'] + lost}"


def _place(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["session"], row["opened"]


def _said(row: Mapping[str, Any]) -> str:
    """Return a metric as a sentence has it: k of n, or the value, with its interval."""
    low, high = row["value_low"], row["value_high"]
    is_share = row["unit"] == "1" and row["hits"] is not None
    value = f"{row['hits']} of {row['n']}" if is_share else f"{row['value']:.4g}"
    value += "" if row["unit"] == "1" else f" {row['unit']}"
    if low is None or high is None:
        return f"{row['metric']} {value}"
    ends = f"{low:.1%} to {high:.1%}" if is_share else f"{low:.4g} to {high:.4g}"
    return f"{row['metric']} {value} ({ends})"


ANALYSIS = Analysis(
    name="accuracy",
    title="Whether the answers are right",
    source=(
        "The answers in the collector's table `output`, of the very attempts whose times the other "
        "tables have, against what their dataset says is right; formulas: mlscope.accuracy."
    ),
    columns=(
        text("agent", "Where it ran."),
        text("session", "The session: one opened model."),
        whole("batch_size", "Samples in a query."),
        text("metric", "top-1, mAP, mIoU, PSNR, F1, word error rate, or another."),
        *estimate("value", "What it says, in `unit`: shares from 0 to 1.", "1"),
        text("unit", "The value's unit: 1, or dB."),
        whole("hits", "k of k of n, of a share of samples; else null."),
        whole("n", "What the value stands on, in `counts`."),
        text("counts", "What `n` counts: samples, true shapes, labelled pixels, true words."),
        text("kind", f"smoke check below {FEW} judged samples, else accuracy."),
        whole("judged", "Samples judged, each once."),
        whole("excluded", "What was left out of `n`: not labelled, not placed, not defined."),
        text("dataset", "Dataset and version."),
        whole("dataset_samples", "How many samples it has; null when nobody knows."),
        text("method", "How it was computed."),
        text("interval", "How the interval was computed; '' when there is none."),
        whole("repeats_compared", "Answers to samples that came again, compared with their first."),
        whole("samples_differing", "Samples of which one was another."),
        text("build", "Digest of model, files, framework, device, precision, options."),
        text("opened", "The opening of the model: loaded once, in one worker."),
        truth("same_build", "Whether all of its runs, the timed ones, were of this build."),
        text("runs", "The runs whose answers these are; their times are under the same names."),
    ),
    compute=accuracy,
)
