"""Questions about answers over the bus: predictions page by page, and two evaluations compared."""

import json
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any

import pytest

from mlscope.bus.bus import Bus
from mlscope.testing.memory_bus import MemoryServer, connect
from mlscope.tracing.batches import Attempt, output_batch
from schemas.analysis import Compared, Prediction, Predictions, Table
from schemas.evaluation import EvaluationPlanned, EvaluationRequested
from schemas.manifest import DatasetManifest, Sample
from schemas.people import Asker
from schemas.request import Evaluate
from schemas.subjects import asked_subject
from services.analyzer.analysis import Analyzed
from services.analyzer.answering.predictions import check_alike, fitting, shortened
from services.analyzer.comparisons import COMPARISONS
from services.analyzer.errors import NotAlike
from services.analyzer.store import Store, migrate
from services.collector import store as collector
from services.collector.runs import run_row
from services.collector.saving import prepared_of
from tests.services.analyzer.comparisons.reading import batch, source
from tests.services.analyzer.exploring.loads import a_load
from tests.services.analyzer.test_service import analyzing
from tests.services.collector.builders import REQUESTED_NS, a_completion, a_plan, some_queries

PREDICTIONS, COMPARE = (f"mlscope.v1.request.{verb}" for verb in ("predictions", "compare"))
CAT = b'[{"type":"classification","index":0,"label":"cat","probability":0.75}]'
TRUE = b'{"features":[],"truth":{"name":"b.jpg","labels":["dog"]},"raw":{}}'


def _planned(evaluation: str, dataset: str = "vectors") -> EvaluationPlanned:
    planned = a_plan()
    subject = planned.plan.subject.model_copy(update={"dataset": DatasetManifest(name=dataset)})
    plan = planned.plan.model_copy(update={"subject": subject})
    return planned.model_copy(update={"evaluation": evaluation, "plan": plan})


def _recorded(address: str, evaluation: str, rows: list[tuple[int, int, bytes]]) -> None:
    attempt = Attempt(evaluation=evaluation, run="r0", attempt=1, agent="a1")
    told: dict[str, Any] = {"evaluation": evaluation}
    with closing(collector.Store(address)) as store:
        batches = (some_queries(**told), output_batch(attempt, 0, rows))
        store.save([prepared_of(batch, REQUESTED_NS) for batch in batches])
        store.end_run(run_row(a_completion(**told), _planned(evaluation).plan, REQUESTED_NS, "c0"))


@pytest.fixture
async def asked(database_url: str) -> AsyncIterator[Bus]:
    """Lend a bus with an analyzer that knows three evaluations."""
    collector.migrate(database_url)
    migrate(database_url)
    server = MemoryServer()
    async with connect(server, "scheduler") as bus:
        for evaluation, dataset in (("e1", "vectors"), ("e2", "vectors"), ("e3", "photos")):
            await bus.publish(_planned(evaluation, dataset), id=evaluation)
            _recorded(database_url, evaluation, [(0, 4, CAT), (1, 5, TRUE), (2, 6, b'"torn"')])
        async with analyzing(server, database_url):
            yield bus


async def _answer(bus: Bus, subject: str, **fields: Any) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(await bus.ask(subject, json.dumps(fields).encode()))
    return told


async def test_predictions_are_told_with_what_is_right_and_what_failed(asked: Bus) -> None:
    told = Predictions.model_validate(await _answer(asked, PREDICTIONS, evaluation="e1"))
    first, second, torn = told.predictions
    assert (first.sample, first.features[0]["label"], told.total) == (4, "cat", 3)
    assert (second.name, second.truth, second.features) == ("b.jpg", {"labels": ["dog"]}, ())
    assert (torn.sample, torn.features) == (6, ())


async def test_pages_follow_one_another(asked: Bus) -> None:
    some = await _answer(asked, PREDICTIONS, evaluation="e1", run="r0", offset=1, limit=1)
    assert [each["sample"] for each in some["predictions"]] == [5]
    assert some["total"] == 3


async def test_two_evaluations_are_compared(asked: Bus) -> None:
    told = Compared.model_validate(await _answer(asked, COMPARE, first="e1", second="e2"))
    assert (told.first_run, told.second_run) == ("r0", "r0")
    measures = {row[1]: row[2] for row in told.tables[0].rows}
    assert measures["top-1 agreement"] == 1.0


_REFUSED: tuple[tuple[str, dict[str, Any], str, str], ...] = (
    (PREDICTIONS, {"evaluation": "e9"}, "unknown", "evaluation"),
    (PREDICTIONS, {"evaluation": "e1", "run": "r9"}, "unknown", "run"),
    (PREDICTIONS, {"evaluation": 3}, "malformed", "evaluation"),
    (COMPARE, {"first": "e1", "second": "e9"}, "unknown", "evaluation"),
    (COMPARE, {"first": "e1", "second": "e2", "second_run": "r9"}, "unknown", "run"),
    (COMPARE, {"first": "e1", "second": "e3"}, "invalid", "dataset"),
    (COMPARE, {"first": "e1"}, "malformed", "second"),
)


async def test_what_can_t_be_answered_is_refused(asked: Bus) -> None:
    for subject, fields, error, field in _REFUSED:
        told = await _answer(asked, subject, **fields)
        assert (told["accepted"], told["error"], told["field"]) == (False, error, field), fields


async def test_figures_of_several_are_set_side_by_side(asked: Bus, database_url: str) -> None:
    sources = [source(name, batch(1, ns)) for name, ns in (("e1", 1_000_000), ("e2", 2_000_000))]
    with closing(Store(database_url)) as store:
        for own in sources:
            store.write(own.evaluation, Analyzed(tuple(own.tables.values()), "d", {}))
    fields: dict[str, Any] = {"first": "e1", "second": "e2", "figures": True, "prices": {"a": 3.6}}
    answer = Compared.model_validate(await _answer(asked, COMPARE, **fields))
    verdicts = {table.name: table.verdict for table in answer.tables}
    assert list(verdicts) == [comparison.name for comparison in COMPARISONS]
    assert "e1 on a" in verdicts["throughput_by_batch"]
    assert "$1.00 (1.00 … 1.00) a million" in verdicts["cost"]
    assert "common blocks: it is slower by 1% or more with" in verdicts["regressions"]
    assert "begun 0 s apart; the interval leaves out drift" in verdicts["regressions"]
    missing = await _answer(asked, COMPARE, **fields | {"others": ["e3"]})
    assert (missing["error"], missing["found"]) == ("unknown", "e3")


async def test_further_evaluations_of_the_load_show_drift_but_those_that_are_hidden(
    asked: Bus, database_url: str
) -> None:
    times_ns = {f"e{n}": ns for n, ns in enumerate((10, 7, 10, 7, 13, 10), 1)}
    with closing(Store(database_url)) as store:
        for name, ns in times_ns.items():
            tables = tuple(source(name, batch(1, ns * 100_000)).tables.values())
            store.write(name, Analyzed(tables, "d", {}, summaries=(a_load(run="b1"),)))
        assert sorted(store.repeats(["e1", "e2"], 3, None)) == ["e4", "e5", "e6"]
        assert store.repeats(["e1", "e2"], 3, ["e1", "e3", "e9"]) == ["e3"]
        assert store.beginnings(["e1", "e9"]) == {"e1": 2e-9}
    # The log lacks e6.
    for name in ("e1", "e2", "e3", "e4", "e5"):
        visibility = "private" if name == "e5" else "cluster"
        request = Evaluate.model_validate({"model": "tiny", "visibility": visibility})
        fact = EvaluationRequested(
            evaluation=name, request=request, requested_ns=1, requested_by="ada"
        )
        await asked.publish(fact, id=f"request of {name}")
    body = json.dumps({"first": "e1", "second": "e2", "figures": True}).encode()
    repeats = []
    for asker in (Asker("olga", "owner"), Asker("ada", "requester"), Asker("bob", "requester")):
        answered = await asked.ask(asked_subject(asker, "compare"), body)
        answer = Compared.model_validate_json(answered)
        (table,) = (table for table in answer.tables if table.name == "regressions")
        names = [column.name for column in table.columns]
        repeats.append(table.rows[0][names.index("repeats")])
    assert repeats == [4, 3, 2]


def test_two_datasets_of_one_name_are_not_taken_for_one() -> None:
    one = _planned("e1").plan.subject
    other = one.model_copy(update={"dataset": DatasetManifest(name="vectors", modality="text")})
    check_alike(one, one)
    with pytest.raises(NotAlike, match="two datasets are called vectors"):
        check_alike(one, other)


def test_names_of_samples_do_not_make_datasets_differ() -> None:
    """Older evaluations have no names of samples."""
    subject = _planned("e1").plan.subject
    unnamed = Sample(content="YQ==", labels=("cat",))
    samples = (unnamed, unnamed.model_copy(update={"name": "a.jpg"}), Sample(content="Yg=="))
    first, named, other = [
        subject.model_copy(update={"dataset": DatasetManifest(name="d", samples=(sample,))})
        for sample in samples
    ]
    check_alike(first, named)
    with pytest.raises(NotAlike, match="their samples differ"):
        check_alike(named, other)


def test_an_answer_holds_what_fits() -> None:
    features = ({"label": "x" * 1000},)
    many = [Prediction(run="r0", query=n, sample=n, features=features) for n in range(40)]
    found = Predictions(evaluation="e1", predictions=tuple(many), total=40)
    body = fitting(found, 9000, json_text=True)
    assert len(body) <= 9000
    kept = json.loads(body)
    assert 0 < len(kept["predictions"]) < 40
    assert kept["total"] == 40


def test_one_that_never_fits_is_told_without_its_features() -> None:
    huge = Prediction(run="r0", query=0, sample=0, features=({"label": "x" * 20_000},))
    found = Predictions(evaluation="e1", predictions=(huge,), total=1)
    (only,) = json.loads(fitting(found, 9000, json_text=True))["predictions"]
    assert "left_out" in only["features"][0]


def test_rows_of_samples_that_do_not_fit_are_left_out_and_that_is_said() -> None:
    table = Table(name="t", title="", columns=(), rows=(("x" * 100,),) * 200)
    found = Compared(first="a", second="b", first_run="r", second_run="r", tables=(table, table))
    overall, samples = json.loads(shortened(found, 30_000, json_text=True))["tables"]
    assert len(overall["rows"]) == 200
    assert len(samples["rows"]) < 200
    assert samples["caveats"] == [f"the first {len(samples['rows'])} of 200 rows"]
