"""All analyses together: order, digest, bounded trees, and the samples a plan names."""

import pytest

from schemas.evaluation import EvaluationPlanned
from schemas.manifest import Sample as ManifestSample
from services.analyzer import analysis
from services.analyzer.analysis import analyze, digest_of, samples_of
from services.analyzer.frames import Sample
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
    monkeypatch.setattr(analysis, "MOST_IN_A_TREE", 2)
    spans = [span(number, 2, "predict", 5) for number in (3, 1, 2)]
    done = analyze(frames_in({"runs": [{**_RUN, "spans": spans}]}))
    assert done.trees[1]["span"].to_list() == [1, 2]
    assert "r0: the tree holds the first 2 of 3 spans" in done.tables[0].caveats


def test_samples_are_named_by_their_files_and_labels() -> None:
    planned = a_plan()
    samples = (ManifestSample(path="photos/cat.jpg", sha256="", labels=("cat",)),)
    dataset = planned.plan.subject.dataset.model_copy(update={"samples": samples})
    subject = planned.plan.subject.model_copy(update={"dataset": dataset})
    plan = planned.plan.model_copy(update={"subject": subject})
    facts = [a_request(), planned, EvaluationPlanned(evaluation="e1", plan=plan)]
    assert samples_of(facts) == (Sample("cat.jpg", ("cat",), "photos/cat.jpg"),)
    assert samples_of([a_request()]) == ()
