"""All analyses of an evaluation: from its frames to its tables, their digest and its trees."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl

from mlscope.counts import many, verb
from mlscope.framing import framing_of
from schemas.analysis import Table
from schemas.batch import SpanKind
from schemas.evaluation import EvaluationPlanned
from schemas.manifest import CODE_FIELDS
from schemas.manifest import Sample as ManifestSample
from schemas.message import Fact
from services.analyzer.correlation import GRAPH
from services.analyzer.devices import eager_of, replayed_share
from services.analyzer.frames import Aim, Frames, Run, Sample
from services.analyzer.tables import ANALYSES

MOST_IN_A_TREE = 100_000
"""Spans of one run whose place in the tree is kept: those that begin first."""
_COUNTERS = "counters"
"""The variant of runs that are replayed for their counters."""


@dataclass(frozen=True, slots=True)
class Analyzed:
    """What is stored of an evaluation; `trees` are by run_key."""

    tables: tuple[Table, ...]
    digest: str
    trees: dict[int, pl.DataFrame]


def analyze(frames: Frames) -> Analyzed:
    """Compute every table and every tree of an evaluation."""
    frames = replace(frames, measured=with_eager(frames.measured))
    caveats = [caveat for run in frames.measured for caveat in _caveats(run, frames.measured)]
    frames = replace(frames, caveats=(*frames.caveats, *caveats))
    tables = tuple(analysis.compute(frames) for analysis in ANALYSES)
    trees = {run.row.run_key: _tree_of(run) for run in frames.measured if run.spans.height}
    return Analyzed(tables, digest_of(tables), trees)


def with_eager(runs: Sequence[Run]) -> tuple[Run, ...]:
    """Return runs of which those that replayed graphs know a run that did not.

    One of the same agent, model and batch size, whose kernels have layers.
    """
    known: dict[tuple[str, str, int], pl.DataFrame] = {}
    for run in runs:
        eager = eager_of(run.kernels) if _has_devices(run) else None
        if eager is not None:
            known.setdefault(_alike(run), eager)
    return tuple(
        replace(run, eager=known[_alike(run)]) if _alike(run) in known and _has_graphs(run) else run
        for run in runs
    )


def _alike(run: Run) -> tuple[str, str, int]:
    return run.row.agent, run.row.model, run.row.batch_size


def _has_devices(run: Run) -> bool:
    return bool((run.spans["kind"] == int(SpanKind.KERNEL)).any())


def _has_graphs(run: Run) -> bool:
    return _has_devices(run) and bool((run.kernels["method"] == GRAPH).any())


def _is_replay_of(run: Run, runs: Sequence[Run]) -> bool:
    """Say whether a run only brings counters to the kernels of another one.

    They join these by name and order, whatever layers they have; tables tell which ones do not.
    """
    others = (
        each for each in runs if each.row.variant != _COUNTERS and _alike(each) == _alike(run)
    )
    return run.row.variant == _COUNTERS and any(_has_devices(each) for each in others)


def _caveats(run: Run, runs: Sequence[Run]) -> Iterator[str]:
    """Yield what a reader must know of a run's tree."""
    name = run.row.run
    if run.spans.height > MOST_IN_A_TREE:
        yield f"{name}: the tree holds the first {MOST_IN_A_TREE} of {run.spans.height} spans"
    if run.correlated.cut:
        cut = run.correlated.cut
        was = verb(cut, "was", "were")
        yield f"{name}: {many(cut, 'span')} {was} cut at an edge of the recording: left out"
    if _has_devices(run) and not _is_replay_of(run, runs) and run.unattributed_share > 0:
        lost = f"{run.unattributed_share:.2%} of the kernels' time"
        yield f"{name}: {lost} belongs to no known layer"
    known = replayed_share(run.kernels) if _has_devices(run) else None
    if known is not None:
        yield (
            f"{name}: CUDA graphs were replayed; {known:.1%} of their kernels' time has a layer, "
            "by the graph's node, or by name and order in a call without the graph"
        )


def _tree_of(run: Run) -> pl.DataFrame:
    """Return the places of a run's first spans."""
    tree = run.tree
    if tree.height <= MOST_IN_A_TREE:
        return tree
    first = run.correlated.spans.sort("start_ns", maintain_order=True)["span"].head(MOST_IN_A_TREE)
    return first.to_frame().join(tree, on="span", how="left", maintain_order="left")


def digest_of(tables: Sequence[Table]) -> str:
    """Return the sha256 of tables: the same rows give the same digest."""
    text = json.dumps([table.model_dump(mode="json") for table in tables], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def aim_of(facts: Iterable[Fact]) -> Aim:
    """Return what an evaluation's plan says of how answers are judged."""
    planned = [fact for fact in facts if isinstance(fact, EvaluationPlanned)]
    if not planned:
        return Aim()
    subject = planned[-1].plan.subject
    assets, dataset, hopeless = subject.model.model, subject.dataset, ""
    if "random" in (assets.weights, subject.options.get("weights")):
        hopeless = f"the weights are random (seed {assets.seed})"
    samples = dataset.synthetic.samples if dataset.synthetic else len(dataset.samples)
    if dataset.source is not None:
        samples = samples or dataset.source.samples
    framing = framing_of(port.steps for port in subject.model.inputs)
    is_coded = any(getattr(subject.model, name) for name in CODE_FIELDS[:3])
    return Aim(subject.model.task, hopeless, samples or None, framing, is_coded)


def samples_of(facts: Iterable[Fact]) -> tuple[Sample, ...]:
    """Return the samples of an evaluation's dataset, as its plan names them."""
    planned = [fact for fact in facts if isinstance(fact, EvaluationPlanned)]
    if not planned:
        return ()
    dataset = planned[-1].plan.subject.dataset
    return tuple(_sample(each) for each in dataset.samples)


def _sample(told: ManifestSample) -> Sample:
    files = [told.path] if told.path else [each.path for each in told.inputs.values()]
    return Sample(told.path.rpartition("/")[2], told.labels, ", ".join(files))
