"""One query through its stages."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from mlscope.tracing.batches import Attempt, columns_of
from schemas.batch import Batch, OutputsPredicted, QueriesAnswered, TraceCaptured
from schemas.level import Level
from services.agent.errors import CodeRaised, PredictFailed
from services.agent.link.batches import unpack_batch
from services.agent.predictors import Layer, Tensors
from services.agent.steps import Operator
from services.agent.worker.queries.operator_runner import Supply
from services.agent.worker.queries.pipeline import Pipeline, PortOperators, spans_per_query
from services.agent.worker.queries.query import Query, Slot
from services.agent.worker.queries.stages import Stages
from services.agent.worker.recorder import RunRecorder


def double(value: Any) -> Any:
    if value is None:
        raise ValueError("torn")
    return np.array([value * 2], np.float32)


def rows(value: Any) -> Any:
    return [[{"label": str(each[0])}] for each in value]


def pipeline(before: Sequence[Operator], *behind: Operator, **more: Any) -> Pipeline:
    """Return the steps of a model of one input and one output."""
    ports = PortOperators("", tuple(before)), PortOperators("", behind)
    return Pipeline((ports[0],), (ports[1],), **more)


TWO = (Operator("double", double), Operator("same", lambda v: v))
PIPELINE = pipeline(TWO)
ANSWERS = pipeline(TWO, Operator("rows", rows))


class Run:
    """Stages over plain numbers; the model is the identity."""

    def __init__(
        self,
        samples: list[Any],
        *,
        batch_size: int = 1,
        level: Level = Level.MODEL,
        pipeline: Pipeline = ANSWERS,
        outputs: int = 8,
    ) -> None:
        self.facts: list[Batch] = []
        self.recorder = RunRecorder(Attempt("e", "r", 1, "a"), self.take)
        supply = Supply(pipeline, samples, batch_size)
        self.busy = supply.predict_clock
        self.stages = Stages(supply, self.predict, self.recorder, level, outputs=outputs)
        self.slot = Slot({"x": np.ones((batch_size, 1), np.float32)})
        self.fails = False

    def take(self, body: bytes) -> bool:
        """Keep a batch."""
        self.facts.append(unpack_batch(body))
        return True

    def predict(self, inputs: Tensors) -> Tensors:
        """Return what came."""
        if self.fails:
            raise PredictFailed("no memory")
        return inputs

    def ask(self, index: int, *samples: int) -> Query:
        """Take a query through all stages."""
        query = Query(index, samples, issued_ns=1)
        for stage in (lambda q: self.stages.prepare(q, self.slot), self.stages.predict):
            stage(query)
        self.stages.finish(query)
        return query

    def flushed(self, kind: type[Batch]) -> Any:
        """Return the one batch of a kind."""
        self.recorder.flush()
        (fact,) = [fact for fact in self.facts if isinstance(fact, kind)]
        return fact


@pytest.mark.parametrize("level", [Level.NONE, Level.APPLICATION, Level.MODEL])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_the_number_of_spans_is_as_computed(level: Level, batch_size: int) -> None:
    run = Run([5, 6, 7], batch_size=batch_size, level=level)
    run.ask(0, *range(batch_size))
    assert len(run.recorder.spans) == spans_per_query(ANSWERS, batch_size, level)


def test_spans_lie_in_their_query() -> None:
    run = Run([5, 6])
    run.ask(0, 0)
    run.ask(1, 1)
    trace = run.flushed(TraceCaptured)
    columns = columns_of(trace)
    names = dict(zip(trace.name_ids, trace.name_texts, strict=True))
    first = [names[name_id] for name_id in columns["name"][:5].tolist()]
    assert first == ["double", "same", "predict", "rows", "query"]
    assert columns["parent"].tolist() == [1, 1, 1, 1, -1, 6, 6, 6, 6, -1]
    assert columns["level"].tolist() == [2, 2, 2, 2, 1] * 2
    assert sorted(columns["span"].tolist()) == list(range(1, 11))
    assert columns["query"].tolist() == [0] * 5 + [1] * 5


def test_code_runs_in_place_of_steps_with_spans_of_its_own() -> None:
    def grown(value: Any) -> Any:
        if value is None:
            raise CodeRaised("preprocess", "line 2: KeyError: 'x'")
        return np.array([value + 1], np.float32)

    before = (Operator("before_preprocess", lambda v: v), Operator("preprocess", grown))
    behind = (Operator("postprocess", rows),)
    codes = Pipeline(code_before=before, code_after=behind)
    run = Run([5, None], pipeline=codes)
    good, bad = run.ask(0, 0), run.ask(1, 1)
    assert (good.errors, good.code_error) == ([], None)
    assert bad.errors == ["sample 1: preprocess: line 2: KeyError: 'x'"]
    assert bad.code_error is not None
    assert spans_per_query(codes, 3, Level.MODEL) == 2 + 3 * 2 + 1
    trace = run.flushed(TraceCaptured)
    names = dict(zip(trace.name_ids, trace.name_texts, strict=True))
    told = [names[each] for each in columns_of(trace)["name"].tolist()]
    assert told[:5] == ["before_preprocess", "preprocess", "predict", "postprocess", "query"]
    assert json.loads(run.flushed(OutputsPredicted).texts[0]) == [{"label": "6.0"}]


def test_a_torn_sample_fails_its_query_alone() -> None:
    run = Run([5, None, 7])
    run.ask(0, 0)
    torn = run.ask(1, 1)
    run.ask(2, 2)
    assert torn.outputs is None
    answered = run.flushed(QueriesAnswered)
    assert columns_of(answered)["status"].tolist() == [0, 1, 0]
    assert answered.error_texts == ("sample 1: double: torn",)


def test_the_rest_of_a_batch_is_predicted_with_a_good_sample_in_the_gap() -> None:
    run = Run([5, None, 7], batch_size=3)
    query = run.ask(0, 0, 1, 2)
    assert query.outputs is not None
    assert query.outputs["x"].tolist() == [[10], [10], [14]]
    assert query.errors == ["sample 1: double: torn"]


def test_a_query_with_a_torn_sample_is_answered_in_part() -> None:
    run = Run([5, None, 7], batch_size=3)
    run.ask(0, 0, 1, 2)
    run.ask(1, 0, 2, 0)
    run.ask(2, 1, 1, 1)
    answered = run.flushed(QueriesAnswered)
    columns = columns_of(answered)
    assert columns["status"].tolist() == [0, 0, 1]
    assert columns["failed"].tolist() == [1, -1, -1]
    assert dict(zip(answered.error_rows, answered.error_texts, strict=True)) == {
        0: "sample 1: double: torn",
        2: "; ".join(["sample 1: double: torn"] * 3),
    }
    tally = run.recorder.tally()
    assert (tally.failed_queries, tally.failed_samples) == (1, 1)


def even(value: Any) -> Any:
    if any(each[0] % 4 for each in value):
        raise ValueError("odd")
    return [[{"label": str(each[0])}] for each in value]


def test_an_answer_that_cannot_be_finished_fails_its_sample_alone() -> None:
    run = Run([2, 5, 4], batch_size=3, pipeline=pipeline(TWO, Operator("even", even)))
    query = run.ask(0, 0, 1, 2)
    assert query.errors == ["sample 1: even: odd"]
    assert (query.status, query.failed_samples) == (0, 1)
    kept = run.flushed(OutputsPredicted)
    assert columns_of(kept)["sample"].tolist() == [0, 2]
    assert [json.loads(text) for text in kept.texts] == [[{"label": "4.0"}], [{"label": "8.0"}]]


def test_a_sample_that_was_torn_is_not_finished_again() -> None:
    seen: list[float] = []

    def noting(value: Any) -> Any:
        seen.extend(each[0] for each in value)
        return even(value)

    run = Run([None, 5, 4], batch_size=3, pipeline=pipeline(TWO, Operator("even", noting)))
    query = run.ask(0, 0, 1, 2)
    assert query.errors == ["sample 0: double: torn", "sample 1: even: odd"]
    assert seen == [10, 10, 8, 10, 8]
    assert columns_of(run.flushed(OutputsPredicted))["sample"].tolist() == [2]


def test_a_step_behind_may_take_the_samples_of_its_batch() -> None:
    seen: list[Any] = []

    def asking(value: Any, samples: Sequence[Any]) -> Any:
        seen.append(samples)
        return even(value)

    step = Operator("even", asking, wants_samples=True)
    run = Run([None, 5, 4], batch_size=3, pipeline=pipeline(TWO, step))
    assert run.ask(0, 0, 1, 2).failed == {0, 1}
    assert seen == [[None, 5, 4], [5], [4]]


def test_what_all_samples_fail_of_is_said_once() -> None:
    run = Run([5, 7], batch_size=2, pipeline=pipeline(TWO, Operator("even", even)))
    query = run.ask(0, 0, 1)
    assert query.errors == ["even: odd"]
    assert (query.status, query.failed_samples) == (1, 0)


def test_outputs_that_are_not_of_single_samples_fail_together() -> None:
    merged = pipeline(TWO, Operator("even", even))
    run = Run([2, 5], batch_size=2, pipeline=merged)
    run.predict = lambda inputs: {"x": np.vstack([inputs["x"], [[3]]])}  # type: ignore[method-assign]
    run.stages.predict_with(run.predict)
    assert run.ask(0, 0, 1).errors == ["even: odd"]


def test_a_sample_of_another_shape_is_no_good() -> None:
    wide = pipeline([Operator("wide", lambda _: np.ones(2, np.float32))])
    query = Run([1], pipeline=wide).ask(0, 0)
    assert query.errors == ["sample 0: batch: a sample has shape (2,), the model takes (1,)"]


@pytest.mark.parametrize(
    ("made", "takes"),
    [
        ("float32", "int64"),
        ("float64", "uint8"),
        ("complex64", "float32"),
        ("int64", "bool"),
    ],
)
def test_a_sample_whose_numbers_would_lose_something_is_no_good(made: str, takes: str) -> None:
    code = Operator("preprocess", lambda value: np.array([value], made))
    run = Run([1, 2], pipeline=Pipeline((PortOperators(""),), code_before=(code,)))
    run.slot = Slot({"x": np.zeros((1, 1), takes)})
    told = f"a sample is {made}, the model takes {takes}: cast it, by a step `cast` or in its code"
    assert run.ask(0, 1).errors == [f"sample 1: batch: {told}"]
    assert not run.slot.arrays[0].any()


@pytest.mark.parametrize(
    ("made", "takes"),
    [
        ("float64", "float32"),
        ("int64", "uint8"),
        ("uint8", "float32"),
        ("bool", "int64"),
        ("int64", "float16"),
    ],
)
def test_a_sample_whose_numbers_are_of_no_lower_kind_fits(made: str, takes: str) -> None:
    run = Run([3], pipeline=pipeline([Operator("made", lambda v: np.array([v], made))]))
    run.slot = Slot({"x": np.zeros((1, 1), takes)})
    assert run.ask(0, 0).errors == []
    assert run.slot.arrays[0].any()


def test_a_failed_predict_fails_the_query() -> None:
    run = Run([5])
    run.fails = True
    assert run.ask(0, 0).errors == ["predict: no memory"]
    assert len(run.recorder.spans) == 4


def test_the_time_in_predict_is_over_when_it_failed() -> None:
    run = Run([5])
    run.fails = True
    run.ask(0, 0)
    assert run.busy.since_ns == 0


def test_a_long_error_is_cut() -> None:
    def wordy(_: Any) -> Any:
        raise ValueError("x" * 9000)

    run = Run([5], pipeline=pipeline([Operator("wordy", wordy)]))
    run.ask(0, 0)
    assert len(run.flushed(QueriesAnswered).error_texts[0]) == 2000


def test_a_query_s_reasons_are_as_many_as_fit_and_the_others_counted() -> None:
    query = Query(0, range(40), issued_ns=1)
    query.fail_samples({each: f"sample {each}: {'x' * 290}" for each in range(39)})
    assert len(query.error) < 8000
    assert query.error.count("sample ") == 26
    assert query.error.endswith("xx; 13 more failed")
    assert (query.status, query.failed_samples) == (0, 39)


def test_what_is_no_number_becomes_valid_json() -> None:
    run = Run([float("nan")], pipeline=pipeline(TWO, allow_nan=frozenset([""])))
    run.ask(0, 0)
    text = run.flushed(OutputsPredicted).texts[0]
    assert b"NaN" not in text


def test_answers_to_samples_of_the_asker_are_not_kept() -> None:
    run = Run([5])
    query = Query(0, [0], issued_ns=1, payload=[21])
    run.stages.prepare(query, run.slot)
    run.stages.predict(query)
    run.stages.finish(query)
    run.ask(1, 0)
    kept = run.flushed(OutputsPredicted)
    assert columns_of(kept)["query"].tolist() == [1]


def test_a_failed_answer_fails_the_query() -> None:
    def broken(value: Any) -> Any:
        raise IndexError("no class")

    run = Run([5], pipeline=pipeline(TWO, Operator("top", broken)))
    assert run.ask(0, 0).errors == ["top: no class"]


def test_each_sample_is_kept_once_up_to_the_bound() -> None:
    run = Run([5, 6, 7], outputs=2)
    for index, sample in enumerate([1, 1, 0, 2]):
        run.ask(index, sample)
    kept = run.flushed(OutputsPredicted)
    assert columns_of(kept)["sample"].tolist() == [1, 0]
    assert columns_of(kept)["query"].tolist() == [0, 2]
    assert json.loads(kept.texts[0]) == [{"label": "12.0"}]


def test_a_raw_answer_is_described() -> None:
    run = Run([5], pipeline=PIPELINE)
    run.ask(0, 0)
    (feature,) = json.loads(run.flushed(OutputsPredicted).texts[0])
    assert (feature["type"], feature["shape"], feature["values"]) == ("raw", [1], [10.0])


def test_samples_may_come_with_the_query() -> None:
    run = Run([5])
    query = Query(0, [0], issued_ns=1, payload=[21])
    run.stages.prepare(query, run.slot)
    assert run.slot.arrays[0].tolist() == [[42]]


def test_layers_hang_under_their_predict_span() -> None:
    run = Run([5], level=Level.FRAMEWORK)
    run.stages.predict_with(run.predict)
    run.ask(0, 0)
    run.ask(1, 0)
    layers = [[Layer("conv", 10, 5, 1, b'{"type":"Conv"}')], []]
    assert run.stages.attach_layers(layers)
    columns = columns_of(run.flushed(TraceCaptured))
    layer = columns["level"].tolist().index(3)
    assert columns["parent"][layer] == columns["span"][2]
    assert columns["query"][layer] == 0


def test_layers_that_do_not_fit_are_left_out() -> None:
    run = Run([5], level=Level.FRAMEWORK)
    run.stages.predict_with(run.predict)
    run.ask(0, 0)
    assert not run.stages.attach_layers([])
    assert len(run.recorder.spans) == 5


def test_an_answer_that_is_no_number_fails_its_sample_alone() -> None:
    run = Run([5, float("nan"), 7], batch_size=3)
    query = run.ask(0, 0, 1, 2)
    assert query.errors == [
        "sample 1: predict: output x: 1 NaN and 0 infinite of 3 values (rows 1)"
    ]
    assert (query.status, query.failed_samples) == (0, 1)
    kept = run.flushed(OutputsPredicted)
    assert columns_of(kept)["sample"].tolist() == [0, 2]
    assert run.slot.arrays[0].tolist()[2] == [14]


def test_the_good_samples_of_a_batch_with_a_torn_one_are_kept() -> None:
    run = Run([5, None, 7], batch_size=3)
    run.ask(0, 0, 1, 2)
    assert columns_of(run.flushed(OutputsPredicted))["sample"].tolist() == [0, 2]


def sum_and_difference(inputs: Tensors) -> Tensors:
    a, b = inputs["a"].astype(float), inputs["b"].astype(float)
    return {"sum": a + b, "difference": a - b}


def two_of_each(
    samples: list[Any], batch_size: int
) -> tuple[Stages, Slot, RunRecorder, list[Batch]]:
    """Return a model of two inputs whose outputs are their sum and difference."""
    facts: list[Batch] = []

    def take(body: bytes) -> bool:
        facts.append(unpack_batch(body))
        return True

    recorder = RunRecorder(Attempt("e", "r", 1, "a"), take)
    before = PortOperators("a", TWO), PortOperators("b", TWO[:1])
    plus = Operator(
        "plus", lambda v, o: [[{"label": str(x[0] + y[0])}] for x, y in zip(v, o, strict=True)]
    )
    behind = (
        PortOperators("sum", (Operator("plus", plus.apply, ("difference",)),)),
        PortOperators("difference"),
    )
    stages = Stages(
        Supply(Pipeline(before, behind), samples, batch_size),
        sum_and_difference,
        recorder,
        Level.MODEL,
        outputs=8,
    )
    shape = (batch_size, 1)
    slot = Slot({name: np.zeros(shape, np.float32) for name in ("a", "b")}, ("a", "b"))
    return stages, slot, recorder, facts


def test_each_input_has_its_part_of_the_sample_and_its_own_steps() -> None:
    samples = [{"a": 5, "b": 1}, {"a": 7, "b": None}, {"a": 2, "b": 3}]
    stages, slot, recorder, facts = two_of_each(samples, 3)
    query = Query(0, [0, 1, 2], issued_ns=1)
    stages.prepare(query, slot)
    stages.predict(query)
    stages.finish(query)
    recorder.flush()
    assert [array.ravel().tolist() for array in slot.arrays] == [[10, 10, 4], [2, 2, 6]]
    assert query.errors == ["sample 1: double: torn"]
    (kept,) = [fact for fact in facts if isinstance(fact, OutputsPredicted)]
    first = json.loads(kept.texts[0])
    assert [each["output"] for each in first] == ["sum", "difference"]
    assert (first[0]["label"], first[1]["values"]) == ("20.0", [8.0])


@pytest.mark.parametrize("batch_size", [1, 2])
def test_spans_of_several_inputs_and_outputs_are_as_computed(batch_size: int) -> None:
    stages, slot, recorder, facts = two_of_each([{"a": 5, "b": 1}, 4], batch_size)
    query = Query(0, range(batch_size), issued_ns=1)
    stages.prepare(query, slot)
    stages.predict(query)
    stages.finish(query)
    recorder.flush()
    (trace,) = [fact for fact in facts if isinstance(fact, TraceCaptured)]
    columns = columns_of(trace)
    expected = 2 + batch_size * 3 + 1
    assert sorted(columns["span"].tolist()) == list(range(1, expected + 1))
    assert not query.errors
