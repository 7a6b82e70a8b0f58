"""A batch over which the model or its code raises: its samples are tried one by one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlscope.tracing.batches import Attempt, columns_of
from schemas.batch import Batch, OutputsPredicted, TraceCaptured
from schemas.level import Level
from schemas.run import RunCompleted
from services.agent.errors import CodeRaised, PredictFailed
from services.agent.link.batches import unpack_batch
from services.agent.predictors import Layer, Tensors
from services.agent.steps import Operator
from services.agent.worker.answers.isolate_samples import is_device_failure, repeated_sample
from services.agent.worker.control import Control
from services.agent.worker.group import Group
from services.agent.worker.opening import open_session
from services.agent.worker.queries.operator_runner import Supply
from services.agent.worker.queries.pipeline import Pipeline, PortOperators
from services.agent.worker.queries.query import Query, Slot
from services.agent.worker.queries.stages import Stages
from services.agent.worker.recorder import RunRecorder
from tests.services.agent.builders import MANIFESTS, a_run, a_subject, an_order

CAST = (Operator("cast", lambda value: np.array([value], np.float32)),)
PLAIN = Pipeline((PortOperators("", CAST),))


class Model:
    """The identity, but that it raises over batches with a negative number in them."""

    def __init__(self, why: str = "negative") -> None:
        self.why = why
        self.calls: list[list[float]] = []

    def predict(self, inputs: Tensors) -> Tensors:
        """Return what came. Raises PredictFailed."""
        values = np.asarray(inputs["x"], np.float32)
        self.calls.append(values[:, 0].tolist())
        if (values < 0).any():
            raise PredictFailed(f"{self.why} {values.min():g}")
        return {"y": values.copy()}


class Run:
    """Stages of a model of one number a sample."""

    def __init__(
        self, samples: list[Any], pipeline: Pipeline = PLAIN, model: Model | None = None
    ) -> None:
        self.facts: list[Batch] = []
        self.model = model or Model()
        self.recorder = RunRecorder(Attempt("e", "r", 1, "a"), self.take)
        supply = Supply(pipeline, samples, len(samples))
        self.busy = supply.predict_clock
        self.stages = Stages(supply, self.model.predict, self.recorder, Level.MODEL, outputs=99)
        self.slot = Slot({"x": np.zeros((len(samples), 1), np.float32)})

    def take(self, body: bytes) -> bool:
        """Keep a batch."""
        self.facts.append(unpack_batch(body))
        return True

    def ask(self, index: int = 0) -> Query:
        """Take a query of all samples through all stages."""
        query = Query(index, range(len(self.slot.arrays[0])), issued_ns=1)
        self.stages.prepare(query, self.slot)
        self.stages.predict(query)
        self.stages.finish(query)
        return query

    def flushed(self, kind: type[Batch]) -> Any:
        """Return the one batch of a kind."""
        self.recorder.flush()
        (fact,) = [fact for fact in self.facts if isinstance(fact, kind)]
        return fact


def test_a_sample_over_which_the_model_raises_fails_alone() -> None:
    run = Run([5, -2, 7, -3])
    query = run.ask()
    assert query.errors == ["sample 1: predict: negative -2", "sample 3: predict: negative -3"]
    assert (query.status, query.failed_samples) == (0, 2)
    assert query.outputs is not None
    assert query.outputs["y"][[0, 2], 0].tolist() == [5, 7]
    assert columns_of(run.flushed(OutputsPredicted))["sample"].tolist() == [0, 2]


def test_a_batch_keeps_its_size_and_a_good_sample_is_in_the_gap() -> None:
    run = Run([5, -2, 7])
    run.ask()
    tried = [[5.0] * 3, [-2.0] * 3, [7.0] * 3]
    assert run.model.calls == [[5, -2, 7], *tried, [5, 5, 7]]


def test_a_batch_that_is_answered_is_predicted_once_and_nothing_noted() -> None:
    run = Run([5, 2])
    run.ask()
    assert run.model.calls == [[5, 2]]
    assert run.stages.notes == []


def test_queries_done_again_are_noted() -> None:
    run = Run([5, -2])
    run.ask(0)
    run.ask(1)
    (note,) = run.stages.notes
    assert note.startswith("2 queries were repeated sample by sample")
    assert "their latencies include that" in note


def test_a_sample_that_was_torn_is_not_tried() -> None:
    before = (Operator("cast", lambda value: np.array([int(value)], np.float32)),)
    run = Run(["x", 4, -2, 8], Pipeline((PortOperators("", before),)))
    query = run.ask()
    assert [error.partition(":")[0] for error in query.errors] == ["sample 0", "sample 2"]
    assert [call[0] for call in run.model.calls[1:4]] == [4, -2, 8]
    assert run.model.calls[-1] == [4, 4, 4, 8]


def test_what_all_samples_raise_fails_their_query_as_one() -> None:
    run = Run([-1, -2])
    assert run.ask().errors == ["predict: negative -2"]
    assert run.stages.notes == []


def test_after_three_queries_in_vain_it_is_the_model() -> None:
    run = Run([-1, -2])
    for index in range(5):
        assert run.ask(index).errors == ["predict: negative -2"]
    assert len(run.model.calls) == 3 * 3 + 2


def test_a_batch_that_raises_only_as_a_whole_fails_as_one() -> None:
    class Together(Model):
        def predict(self, inputs: Tensors) -> Tensors:
            if len(set(inputs["x"][:, 0].tolist())) > 1:
                raise PredictFailed("they differ")
            return super().predict(inputs)

    run = Run([1, 2], model=Together())
    assert run.ask().errors == ["predict: they differ"]


@pytest.mark.parametrize(
    "reason",
    [
        "CUDA error: an illegal memory access was encountered",
        "CUDA out of memory. Tried to allocate 2.00 GiB",
        "RESOURCE_EXHAUSTED: Out of memory allocating 1024 bytes",
        "std::bad_alloc",
        "unspecified launch failure",
        "[ONNXRuntimeError] : 6 : Failed to allocate memory for requested buffer",
        "DefaultCPUAllocator: can't allocate memory: not enough memory",
        "/infer: connection refused",
    ],
)
def test_trouble_of_a_device_is_no_sample_s(reason: str) -> None:
    run = Run([5, -2], model=Model(reason))
    query = run.ask()
    assert query.errors == [f"predict: {reason} -2"]
    assert len(run.model.calls) == 1


@pytest.mark.parametrize(
    "reason",
    ["index out of range in self", "Got invalid dimensions for input", "indices[0,3] = 99999"],
)
def test_words_about_data_are_not_taken_for_a_device_s(reason: str) -> None:
    assert not is_device_failure(PredictFailed(reason))


def test_a_device_that_goes_away_while_samples_are_tried_ends_that() -> None:
    class Dying(Model):
        def predict(self, inputs: Tensors) -> Tensors:
            self.why = "negative" if not self.calls else "CUDA error"
            return super().predict(inputs)

    run = Run([5, -2, 6], model=Dying())
    assert run.ask().errors == ["predict: CUDA error -2"]
    assert len(run.model.calls) == 3
    assert run.slot.arrays[0][:, 0].tolist() == [5, -2, 6]


def test_no_predict_call_is_said_to_last_afterwards() -> None:
    run = Run([5, -2])
    run.ask()
    assert run.busy.since_ns == 0


def test_layers_of_samples_tried_alone_are_no_query_s() -> None:
    run = Run([5, -2])
    run.stages.predict_with(run.model.predict)
    run.ask()
    # One call answers: the first sample alone, the second raises, at last the batch.
    alone, whole = ([Layer(name, 10, 5, 1, b"{}")] for name in ("alone", "whole"))
    assert run.stages.attach_layers([alone, whole])
    trace = run.flushed(TraceCaptured)
    assert "whole" in trace.name_texts
    assert "alone" not in trace.name_texts


def odd(value: Any) -> Any:
    if any(each[0] % 2 for each in value):
        raise CodeRaised("postprocess", "line 3: ValueError: odd")
    return [[{"label": str(int(each[0]))}] for each in value]


def coded(*codes: Any) -> Pipeline:
    behind = tuple(Operator(f"code{number}", code) for number, code in enumerate(codes))
    return Pipeline((PortOperators("", CAST),), code_after=behind)


def test_a_sample_over_which_code_behind_the_model_raises_fails_alone() -> None:
    run = Run([2, 3, 4], coded(odd))
    query = run.ask()
    assert query.errors == ["sample 1: code0: line 3: ValueError: odd"]
    assert (query.status, query.failed_samples) == (0, 1)
    assert query.code_error is not None
    kept = run.flushed(OutputsPredicted)
    assert columns_of(kept)["sample"].tolist() == [0, 2]
    assert list(kept.texts) == [b'[{"label":"2"}]', b'[{"label":"4"}]']
    assert len(run.stages.notes) == 1


def test_code_sees_batches_of_the_size_it_was_told() -> None:
    seen: list[list[float]] = []

    def noting(value: Any) -> Any:
        seen.append(value[:, 0].tolist())
        return value

    Run([2, 3], coded(noting, odd)).ask()
    assert seen == [[2, 3], [2, 2], [3, 3]]


def test_what_code_raises_over_all_samples_is_their_query_s() -> None:
    run = Run([1, 3], coded(odd))
    query = run.ask()
    assert query.errors == ["code0: line 3: ValueError: odd"]
    assert (query.status, query.failed_samples) == (1, 0)


def test_code_that_raises_over_the_whole_alone_fails_it() -> None:
    def same(value: Any) -> Any:
        if len(set(value[:, 0].tolist())) > 1:
            raise ValueError("they differ")
        return value

    assert Run([2, 4], coded(same)).ask().errors == ["code0: they differ"]


def test_several_outputs_are_a_map_of_one_sample_s_parts() -> None:
    boxes = {"0.boxes": np.zeros((3, 4)), "1.boxes": np.ones((5, 4))}
    found = repeated_sample({"a": np.array([[1], [2]]), **boxes}, 1, 2)
    assert found is not None
    shapes = {name: array.shape for name, array in found.items()}
    assert shapes == {"a": (2, 1), "0.boxes": (5, 4), "1.boxes": (5, 4)}
    assert found["a"].tolist() == [[2], [2]]
    assert repeated_sample({"a": np.zeros(3)}, 0, 2) is None
    assert repeated_sample({"0.boxes": np.zeros(3)}, 1, 2) is None


def merged(inputs: Tensors) -> Tensors:
    return {"y": np.vstack([inputs["x"], [[3]]])}


def test_outputs_that_are_not_of_single_samples_fail_together() -> None:
    run = Run([2, 4], coded(odd))
    run.stages.predict_with(merged)
    assert run.ask().errors == ["code0: line 3: ValueError: odd"]


class Choosy:
    """A predictor that raises over batches with one sample in them."""

    def __init__(self, inner: Any, sample: Any) -> None:
        self._inner, self._sample = inner, sample

    def __getattr__(self, name: str) -> Any:
        """Be the predictor in all else."""
        return getattr(self._inner, name)

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs. Raises PredictFailed."""
        (values,) = inputs.values()
        if any(np.array_equal(each, self._sample) for each in values):
            raise PredictFailed("index out of range")
        outputs: Tensors = self._inner.predict(inputs)
        return outputs


def test_a_run_says_how_many_samples_failed_and_that_its_latencies_contain_the_search(
    tmp_path: Path,
) -> None:
    session = open_session(a_subject(), 2, MANIFESTS, tmp_path)
    choosy = Choosy(session.predictor, session.supply.samples[1])
    order = an_order(a_subject(), (a_run(queries=3),), batch_size=2)
    group = Group(
        replace(session, predictor=choosy), order, Control(), lambda _: True, lambda _: None
    )
    (ended,) = group.perform()
    session.close()
    assert isinstance(ended, RunCompleted)
    assert (ended.tally.failed_queries, ended.tally.failed_samples > 0) == (0, True)
    assert any("first: sample 1: predict: index out of range" in each for each in ended.caveats)
    assert any("repeated sample by sample" in each for each in ended.caveats)
