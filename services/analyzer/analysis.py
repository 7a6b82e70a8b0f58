"""All analyses of an evaluation: from its frames to its tables, their digest and its trees."""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter

import polars as pl

from mlscope.counts import be, many, verb
from mlscope.image_geometry import geometry_steps_of
from schemas.analysis import Headline, Table
from schemas.batch import SpanKind
from schemas.evaluation import (
    EvaluationCancelled,
    EvaluationMeasured,
    EvaluationPlanned,
    EvaluationRequested,
)
from schemas.manifest import CODE_FIELDS, ModelManifest
from schemas.message import Fact
from schemas.plan import Plan, Subject
from schemas.request import PREDICT, PURPOSE
from services.analyzer.correlation import GRAPH
from services.analyzer.frames.devices import eager_of, replayed_share
from services.analyzer.frames.evaluation import CANCELLED, Frames, Run, Sample, ScoringContext
from services.analyzer.headlines import headlines_of
from services.analyzer.summaries import Cells, summaries_of
from services.analyzer.tables import ANALYSES

MOST_SPANS_IN_TREE = 100_000
"""The most spans of one run whose place in the tree is stored: those that begin first."""
_COUNTERS = "counters"
"""The variant of runs that are replayed to read hardware counters."""

_ModelKey = tuple[str, str, int]
"""Agent, model and batch size."""


@dataclass(frozen=True, slots=True)
class Analyzed:
    """The stored results of an evaluation; `trees` are by run_key."""

    tables: tuple[Table, ...]
    digest: str
    trees: dict[int, pl.DataFrame]
    headlines: tuple[Headline, ...] = ()
    #: rows of the table `headline`, one for each of the headlines
    summaries: tuple[Cells, ...] = ()


def analyze(frames: Frames, model: ModelManifest | None = None) -> Analyzed:
    """Compute every table and every tree of an evaluation; `model` is the manifest it planned."""
    frames = replace(frames, measured=with_eager(frames.measured))
    timed_models = {
        _model_key(run)
        for run in frames.measured
        if run.row.variant != _COUNTERS and _has_kernels(run)
    }
    caveats = chain.from_iterable(_caveats(run, timed_models) for run in frames.measured)
    frames = replace(frames, caveats=(*frames.caveats, *caveats))
    tables = tuple(analysis.compute(frames) for analysis in ANALYSES)
    trees = {}
    for run in (run for run in frames.measured if run.spans.height):
        tree = run.tree
        if tree.height > MOST_SPANS_IN_TREE:
            in_order = run.correlated.spans.sort("start_ns", maintain_order=True)
            first = in_order["span"].head(MOST_SPANS_IN_TREE).to_frame()
            tree = first.join(tree, on="span", how="left", maintain_order="left")
        trees[run.row.run_key] = tree
    headlines = headlines_of(frames.measured, tables)
    summaries = summaries_of(frames.measured, tables, model)
    return Analyzed(tables, digest_of(tables), trees, headlines, summaries)


def with_eager(runs: Sequence[Run]) -> tuple[Run, ...]:
    """Return the runs; those that replayed CUDA graphs get the `eager` kernels of a similar run.

    That run has the same agent, model and batch size, and its kernels have layers.
    """
    eager_by_model: dict[_ModelKey, pl.DataFrame] = {}
    for run in runs:
        eager = eager_of(run.device_work) if _has_kernels(run) else None
        if eager is not None:
            eager_by_model.setdefault(_model_key(run), eager)
    with_graphs = []
    for run in runs:
        eager = eager_by_model.get(_model_key(run))
        has_graphs = _has_kernels(run) and bool((run.device_work["method"] == GRAPH).any())
        with_graphs.append(replace(run, eager=eager) if eager is not None and has_graphs else run)
    return tuple(with_graphs)


def _model_key(run: Run) -> _ModelKey:
    return run.row.agent, run.row.model, run.row.batch_size


def _has_kernels(run: Run) -> bool:
    return bool((run.spans["kind"] == int(SpanKind.KERNEL)).any())


def _caveats(run: Run, timed_models: Collection[_ModelKey]) -> Iterator[str]:
    """Yield the caveats about a run's tree.

    `timed_models` have kernels in runs other than replays for counters.
    """
    name = run.row.run
    if run.spans.height > MOST_SPANS_IN_TREE:
        yield f"{name}: the tree holds the first {MOST_SPANS_IN_TREE} of {run.spans.height} spans"
    if cut := run.correlated.cut:
        was = verb(cut, "was", "were")
        yield f"{name}: {many(cut, 'span')} {was} left out: cut at an edge of the recording"
    if not _has_kernels(run):
        return
    # A replay's kernels join those of other runs by name and order, whatever layers they have;
    # tables report which do not.
    is_counted_for_others = run.row.variant == _COUNTERS and _model_key(run) in timed_models
    if not is_counted_for_others and run.unattributed_share > 0:
        share = f"{run.unattributed_share:.2%} of the kernel time"
        yield f"{name}: {share} belongs to no known layer"
    replayed = replayed_share(run.device_work)
    if replayed is not None:
        yield (
            f"{name}: CUDA graphs were replayed; {replayed:.1%} of their kernel time has a layer, "
            "by the graph's node, or by name and order in a call without the graph"
        )


def digest_of(tables: Sequence[Table]) -> str:
    """Return the SHA-256 of tables as hex: equal tables have equal digests."""
    text = json.dumps([table.model_dump(mode="json") for table in tables], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def scoring_context_of(facts: Iterable[Fact]) -> ScoringContext:
    """Return what an evaluation's plan says for scoring its answers."""
    plan = _plan_of(facts)
    if plan is None:
        return ScoringContext()
    subject = plan.subject
    dataset, unscorable_reason = subject.dataset, ""
    for own in (subject, *(plan.subject_of(session.session) for session in plan.sessions)):
        assets = own.model.model
        if "random" in (assets.weights, own.options.get("weights")):
            unscorable_reason = f"the weights are random (seed {assets.seed})"
    samples = dataset.synthetic.samples if dataset.synthetic else len(dataset.samples)
    if dataset.source is not None:
        samples = samples or dataset.source.samples
    geometry_steps = geometry_steps_of(port.steps for port in subject.model.inputs)
    is_coded = any(attrgetter(*CODE_FIELDS[:3])(subject.model))
    return ScoringContext(
        subject.model.task, unscorable_reason, samples or None, geometry_steps, is_coded
    )


def model_of(facts: Iterable[Fact]) -> ModelManifest | None:
    """Return the manifest that an evaluation planned; None before it is planned."""
    subject = _subject_of(facts)
    return subject.model if subject else None


def cancellation_caveats(measured: EvaluationMeasured, facts: Iterable[Fact]) -> Iterator[str]:
    """Yield how many runs of a cancelled evaluation are complete, if it had more.

    `measured` names those that are analyzed, `facts` are the evaluation's decisions.
    """
    facts = tuple(facts)
    plans = [fact.plan for fact in facts if isinstance(fact, EvaluationPlanned)]
    planned = sum(len(session.runs) for plan in plans[-1:] for session in plan.sessions)
    is_cancelled = any(isinstance(fact, EvaluationCancelled) for fact in facts)
    cut_off = sum(run.end == CANCELLED for run in measured.runs)
    complete = len(measured.runs) - cut_off
    if not is_cancelled or complete >= planned:
        return
    counts = f"cancelled: {complete} of {planned} runs {be(complete)} complete"
    was = verb(cut_off, "was cut off and counts", "were cut off and count")
    if cut_off:
        yield f"{counts}; {cut_off} {was} with the queries until then"
    else:
        yield f"{counts}, and only {verb(complete, 'it counts', 'they count')}"


def is_prediction(facts: Iterable[Fact]) -> bool:
    """Return whether an evaluation only answered files, as its request says."""
    requests = [fact.request for fact in facts if isinstance(fact, EvaluationRequested)]
    return any(request.labels.get(PURPOSE) == PREDICT for request in requests)


def samples_of(facts: Iterable[Fact]) -> tuple[Sample, ...]:
    """Return the samples of an evaluation's dataset, as named in its plan."""
    subject = _subject_of(facts)
    if subject is None:
        return ()
    samples = []
    for sample in subject.dataset.samples:
        paths = [sample.path] if sample.path else [port.path for port in sample.inputs.values()]
        name = sample.name or sample.path.rpartition("/")[2]
        samples.append(Sample(name, sample.labels, ", ".join(paths)))
    return tuple(samples)


def _subject_of(facts: Iterable[Fact]) -> Subject | None:
    plan = _plan_of(facts)
    return plan.subject if plan else None


def _plan_of(facts: Iterable[Fact]) -> Plan | None:
    """Return the last plan of an evaluation; None before it is planned."""
    planned = [fact for fact in facts if isinstance(fact, EvaluationPlanned)]
    return planned[-1].plan if planned else None
