"""All analyses together: order, digest, bounded trees, and the samples a plan names."""

from typing import Any

import pytest

from schemas.evaluation import (
    EvaluationCancelled,
    EvaluationMeasured,
    EvaluationPlanned,
    MeasuredRun,
)
from schemas.manifest import (
    Assets,
    DatasetManifest,
    ModelManifest,
    Port,
    Source,
    Step,
    Synthetic,
    step_of,
)
from schemas.manifest import Sample as ManifestSample
from schemas.plan import Build
from services.analyzer import analysis
from services.analyzer.analysis import (
    analyze,
    cancellation_caveats,
    digest_of,
    samples_of,
    scoring_context_of,
    with_eager,
)
from services.analyzer.frames.evaluation import Sample, ScoringContext
from services.analyzer.tables import ANALYSES
from tests.services.analyzer.golden import frames_in
from tests.services.analyzer.tables.reading import query, span
from tests.services.collector.builders import a_plan, a_request

_RUN = {"run": "r0", "level": 2, "queries": [query(0, 0, 9)]}


def test_tables_come_in_the_order_of_a_report_with_their_digest() -> None:
    done = analyze(frames_in({"runs": [_RUN]}))
    assert [table.name for table in done.tables] == [each.name for each in ANALYSES]
    assert done.digest == digest_of(done.tables) != digest_of(done.tables[1:])


def test_only_runs_with_spans_have_trees() -> None:
    traced = {**_RUN, "run": "r1", "spans": [span(0, 2, "predict", 5)]}
    done = analyze(frames_in({"runs": [_RUN, traced]}))
    assert [*done.trees] == [2]


def test_a_tree_is_bounded_by_the_first_spans_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "MOST_SPANS_IN_TREE", 2)
    spans = [span(number, 2, "predict", 5) for number in (3, 1, 2)]
    done = analyze(frames_in({"runs": [{**_RUN, "spans": spans}]}))
    assert done.trees[1]["span"].to_list() == [1, 2]
    assert "r0: the tree holds the first 2 of 3 spans" in done.tables[0].caveats


def test_what_is_cut_or_without_launch_is_a_caveat() -> None:
    cut = [9, None, 1, "query", -5, 9, 0, 0, 0]
    kernels = [[n, None, 5, "gemm", 60 + n, 20, 7, -1, 0, None, 2, n, 0, 7] for n in (3, 4)]
    launch = [2, None, 5, "cudaLaunchKernel", 5, 3, 0, 0, 0, None, 1, 3]
    done = analyze(frames_in({"runs": [{**_RUN, "spans": [cut, launch, *kernels]}]}))
    assert "r0: 1 span was left out: cut at an edge of the recording" in done.tables[0].caveats
    lost = "r0: 100.00% of the kernel time belongs to no known layer"
    assert lost in done.tables[0].caveats


def test_a_replay_for_counters_needs_no_layers_where_another_run_has_them() -> None:
    kernel = [3, None, 5, "gemm", 60, 20, 7, -1, 0, None, 2, 3, 0, 7]
    launch = [2, None, 5, "cudaLaunchKernel", 5, 3, 0, 0, 0, None, 1, 3]
    layer = [4, None, 3, "fc", 4, 6, 0, 0, 0, 0]
    replay = {**_RUN, "run": "counted", "variant": "counters", "spans": [launch, kernel]}
    lost = "counted: 100.00% of the kernel time belongs to no known layer"
    alone = analyze(frames_in({"runs": [replay]})).tables[0].caveats
    assert lost in alone
    plain = {**_RUN, "spans": [launch, kernel, layer]}
    for model, is_told in (("", False), ("another", True)):
        beside = analyze(frames_in({"runs": [{**plain, "model": model}, replay]}))
        assert (lost in beside.tables[0].caveats) is is_told


def test_a_graphs_kernels_learn_their_layers_from_a_run_without_graphs() -> None:
    layer = [1, None, 3, "conv1", 0, 50, 0, 0, 0, 4]
    launches = [[n, None, 5, "cudaLaunchKernel", n, 1, 0, -1, 0, None, 1, n] for n in (10, 11)]
    ran = [[20 + n, None, 5, f"k{n}", 60 + n, 1, 7, -1, 0, None, 2, n, 0, 7] for n in (10, 11)]
    eager = {**_RUN, "run": "r0", "spans": [layer, *launches, *ran]}
    replayed = [[*kernel[:11], 10, *kernel[12:]] for kernel in ran]
    graph = {**_RUN, "run": "r1", "spans": [launches[0], *replayed]}
    runs = with_eager(frames_in({"runs": [eager, graph]}).measured)
    assert runs[1].device_work.select("method", "layer").rows() == [("graph", 4)] * 2
    other = with_eager(frames_in({"runs": [eager, {**graph, "batch_size": 8}]}).measured)
    assert other[1].device_work["layer"].to_list() == [None, None]


def _planned(model: ModelManifest, **subject: Any) -> EvaluationPlanned:
    planned = a_plan()
    changed = planned.plan.subject.model_copy(update={"model": model, **subject})
    return EvaluationPlanned(
        evaluation="e1", plan=planned.plan.model_copy(update={"subject": changed})
    )


def test_random_weights_are_known_from_the_plan() -> None:
    model = a_plan().plan.subject.model
    assets = Assets(builder="x.y", weights="random", seed=7)
    random = _planned(model.model_copy(update={"model": assets}))
    assert scoring_context_of([random]).unscorable_reason == "the weights are random (seed 7)"
    assert (
        "random"
        in scoring_context_of([_planned(model, options={"weights": "random"})]).unscorable_reason
    )
    assert scoring_context_of([_planned(model)]).unscorable_reason == ""
    assert scoring_context_of([a_request()]) == ScoringContext()


def test_random_weights_of_one_framework_are_random_weights() -> None:
    planned = a_plan()
    model, (session, *_) = planned.plan.subject.model, planned.plan.sessions
    random = model.model_copy(update={"model": Assets(builder="x.y", weights="random", seed=7)})
    sessions = (session, session.model_copy(update={"session": "s1", "build": Build(model=random)}))
    plan = planned.plan.model_copy(update={"sessions": sessions})
    context = scoring_context_of([planned.model_copy(update={"plan": plan})])
    assert context.unscorable_reason == "the weights are random (seed 7)"


def test_how_a_picture_is_framed_is_known_from_the_steps() -> None:
    told = ["decode", {"resize": {"dimensions": [300, 400]}}, {"crop": {"dimensions": [9, 9]}}]
    steps = tuple(Step.model_validate(step_of(step)) for step in told)
    port = Port(type="image", steps=steps)
    model = a_plan().plan.subject.model.model_copy(update={"inputs": (port,)})
    assert scoring_context_of([_planned(model)]).geometry_steps == steps[1:]
    other = model.model_copy(update={"inputs": (port, Port(type="image", steps=steps[:2]))})
    assert scoring_context_of([_planned(other)]).geometry_steps is None
    coded = model.model_copy(update={"preprocess": "def fun(env, data): ..."})
    assert (
        scoring_context_of([_planned(coded)]).is_coded,
        scoring_context_of([_planned(model)]).is_coded,
    ) == (True, False)


@pytest.mark.parametrize(
    ("dataset", "samples"),
    [
        ({"samples": (ManifestSample(path="a"),) * 3}, 3),
        ({"synthetic": Synthetic(samples=7)}, 7),
        ({"source": Source(address="file:x", reader="csv", samples=9)}, 9),
        ({"source": Source(address="file:x", reader="csv")}, None),
    ],
)
def test_how_many_samples_there_are_is_known_or_not(dataset: Any, samples: int | None) -> None:
    manifest = DatasetManifest(name="d", **dataset)
    scoring_context = scoring_context_of([_planned(a_plan().plan.subject.model, dataset=manifest)])
    assert scoring_context.samples == samples


def test_samples_are_named_by_their_files_and_labels() -> None:
    planned = a_plan()
    samples = (ManifestSample(path="photos/cat.jpg", sha256="", labels=("cat",)),)
    dataset = planned.plan.subject.dataset.model_copy(update={"samples": samples})
    subject = planned.plan.subject.model_copy(update={"dataset": dataset})
    plan = planned.plan.model_copy(update={"subject": subject})
    facts = [a_request(), planned, EvaluationPlanned(evaluation="e1", plan=plan)]
    assert samples_of(facts) == (Sample("cat.jpg", ("cat",), "photos/cat.jpg"),)
    assert samples_of([a_request()]) == ()


def test_a_cancelled_evaluation_says_how_many_runs_are_complete() -> None:
    plan = a_plan().plan
    runs = [run.run for session in plan.sessions for run in session.runs]
    ends = tuple(MeasuredRun(run=run, attempt=1, end="completed", agent="a1") for run in runs)
    facts = [EvaluationPlanned(evaluation="e1", plan=plan), EvaluationCancelled(evaluation="e1")]
    measured = EvaluationMeasured(evaluation="e1", runs=ends[:-1])
    (caveat,) = cancellation_caveats(measured, facts)
    assert caveat.startswith(f"cancelled: {len(runs) - 1} of {len(runs)} runs")
    assert caveat.endswith("complete, and only they count")
    assert not [*cancellation_caveats(measured, facts[:1])]
    assert not [*cancellation_caveats(EvaluationMeasured(evaluation="e1", runs=ends), facts)]
    cut_off = ends[-1].model_copy(update={"end": "cancelled", "queries": 7})
    measured = EvaluationMeasured(evaluation="e1", runs=(*ends[:-1], cut_off))
    (caveat,) = cancellation_caveats(measured, facts)
    assert caveat.endswith("complete; 1 was cut off and counts with the queries until then")
