"""Samples prepared ahead: the same answers as streamed, and what happens where they can't be."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlscope.tracing.batches import columns_of
from schemas.batch import Batch, OutputsPredicted, QueriesAnswered, TraceCaptured
from schemas.manifest import Step
from schemas.plan import RunPlan, Subject
from schemas.request import Blocks
from schemas.run import RunCompleted, RunFailed
from services.agent.errors import PredictFailed
from services.agent.link.allowances import Allowances
from services.agent.link.batches import unpack_batch
from services.agent.link.messages import AttemptKey, Outcome
from services.agent.predictors import Opened, Predictor, Tensors
from services.agent.worker.control import Control
from services.agent.worker.group import Group
from services.agent.worker.opening import open_session
from services.agent.worker.queries.ahead import TRACED_SAMPLES
from services.agent.worker.queries.stages import Stages
from services.agent.worker.session import Session
from tests.services.agent.builders import (
    MANIFESTS,
    a_picture_subject,
    a_run,
    a_subject,
    a_synthetic,
    an_order,
)
from tests.services.agent.test_several_inputs import a_subject_of_two

AHEAD, STREAMED = "ahead", "streamed"
PHOTOS = MANIFESTS / "datasets" / "photos"


class Recorded:
    """What the runs of one group left behind."""

    def __init__(self, session: Session, *runs: RunPlan, batch_size: int = 1) -> None:
        self.control = Control()
        self.batches: list[Batch] = []
        subject = session.subject.model_copy(update={"blocks": Blocks(least=2, most=2)})
        order = an_order(subject, runs, batch_size=batch_size)
        self.group = Group(session, order, self.control, self.take, lambda _: None)
        self.outcomes: dict[str, Outcome] = {}

    def take(self, body: bytes) -> bool:
        """Keep a batch."""
        self.batches.append(unpack_batch(body))
        return True

    def perform(self) -> "Recorded":
        """Do all runs."""
        self.outcomes = {outcome.run: outcome for outcome in self.group.perform()}
        return self

    def completed(self, run: str) -> RunCompleted:
        """Return the outcome of a run that completed."""
        outcome = self.outcomes[run]
        assert isinstance(outcome, RunCompleted), outcome
        return outcome

    def _columns(self, kind: type[Batch], run: str) -> dict[str, list[int]]:
        columns: dict[str, list[int]] = defaultdict(list)
        for batch in self.batches:
            if isinstance(batch, kind) and batch.run == run:
                for name, values in columns_of(batch).items():
                    columns[name] += values.tolist()
        return columns

    def queries(self, run: str) -> list[tuple[int, ...]]:
        """Return number, block, size, status and failed samples of each query."""
        columns = self._columns(QueriesAnswered, run)
        names = ("query", "block", "size", "status", "failed")
        return list(zip(*(columns[name] for name in names), strict=True))

    def errors(self, run: str) -> list[str]:
        """Return the errors of the queries that have one."""
        batches = [one for one in self.batches if isinstance(one, QueriesAnswered)]
        return [text for one in batches if one.run == run for text in one.error_texts]

    def answers(self, run: str) -> list[tuple[int, int, bytes]]:
        """Return query, sample and text of each answer that was kept."""
        batches = [b for b in self.batches if isinstance(b, OutputsPredicted) and b.run == run]
        texts = [text for batch in batches for text in batch.texts]
        columns = self._columns(OutputsPredicted, run)
        return list(zip(columns["query"], columns["sample"], texts, strict=True))

    def spans(self, run: str) -> list[tuple[str, int, int]]:
        """Return name, query and block of each span."""
        names: dict[int, str] = {}
        for batch in self.batches:
            if isinstance(batch, TraceCaptured) and batch.run == run:
                names |= dict(zip(batch.name_ids, batch.name_texts, strict=True))
        columns = self._columns(TraceCaptured, run)
        rows = zip(columns["name"], columns["query"], columns["block"], strict=True)
        return [(names[name], query, block) for name, query, block in rows]


def both(session: Session, *, batch_size: int = 1, **more: Any) -> Recorded:
    """Do a run with samples prepared ahead, and the same run with streamed ones."""
    runs = [a_run(mode, samples=mode, **more) for mode in (AHEAD, STREAMED)]
    return Recorded(session, *runs, batch_size=batch_size).perform()


def pictures(folder: Path) -> tuple[Subject, Path]:
    """Return a model of pictures, one of which is torn."""
    good, other = (PHOTOS / "chelsea.jpg").read_bytes(), (PHOTOS / "coffee.jpg").read_bytes()
    files = {"a.jpg": good, "torn.jpg": good[:900], "b.jpg": other}
    return a_picture_subject(folder / "m", files, outputs=9), folder / "m"


def made(model: str, dataset: str) -> Any:
    """Return what makes a shipped model with a shipped dataset."""
    return lambda _: (a_subject(model, dataset, outputs=9), MANIFESTS)


def of_two(folder: Path, **more: Any) -> tuple[Subject, Path]:
    """Return a model of two inputs and two outputs."""
    subject = a_subject_of_two(folder / "m", **more)
    return subject.model_copy(update={"outputs": 9}), folder / "m"


SUBJECTS = {
    "vectors": made("identity", "vectors"),
    "noise": made("tiny_cnn", "noise32"),
    "digits": made("digits", "digits"),
    "pictures": pictures,
    "two inputs": of_two,
    "no numbers": lambda folder: of_two(folder, b="zeros"),
}


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("scenario", ["online", "batched"])
@pytest.mark.parametrize("batch_size", [1, 2])
@pytest.mark.parametrize("subject", SUBJECTS)
def test_answers_and_failures_are_those_of_streamed_samples(
    tmp_path: Path, subject: str, batch_size: int, scenario: str
) -> None:
    what, manifests = SUBJECTS[subject](tmp_path)
    session = open_session(what, batch_size, manifests, tmp_path)
    recorded = both(session, batch_size=batch_size, scenario=scenario, queries=7)
    session.close()
    assert recorded.queries(AHEAD) == recorded.queries(STREAMED)
    assert recorded.errors(AHEAD) == recorded.errors(STREAMED)
    assert recorded.answers(AHEAD) == recorded.answers(STREAMED)
    ahead, streamed = (recorded.completed(mode) for mode in (AHEAD, STREAMED))
    assert ahead.conditions.repeats_compared >= streamed.conditions.repeats_compared
    assert (ahead.conditions.samples, streamed.conditions.samples) == (AHEAD, STREAMED)
    assert ahead.caveats == streamed.caveats or subject == "no numbers"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Open a model of pictures for two at a time."""
    subject, manifests = pictures(tmp_path)
    opened = open_session(subject, 2, manifests, tmp_path)
    yield opened
    opened.close()


def test_only_predict_is_in_the_clock_and_the_steps_are_in_a_block_of_their_own(
    session: Session,
) -> None:
    spans = both(session, batch_size=2, queries=7).spans(AHEAD)
    assert {name for name, query, _ in spans if query >= 0} == {"query", "predict"}
    untimed = [name for name, query, block in spans if (query, block) == (-1, -1)]
    assert untimed.count("prepare") == untimed.count("answer") == untimed.count("predict") == 3
    assert untimed.count("topk") == 3
    # One of the three photos is torn; each is in two of the batches.
    assert (untimed.count("decode"), untimed.count("normalize")) == (6, 4)
    assert len(spans) == len(untimed) + 2 * 2 * 7


def test_a_run_without_traced_steps_records_none(session: Session) -> None:
    recorded = both(session, batch_size=2, queries=7, level="application")
    assert {name for name, *_ in recorded.spans(AHEAD)} == {"query"}


def test_conditions_have_the_distinct_batches_and_their_bytes(session: Session) -> None:
    conditions = both(session, batch_size=2, queries=7).completed(AHEAD).conditions
    assert conditions.prepared_batches == 3
    assert conditions.prepared_bytes == 3 * 2 * 3 * 224 * 224 * 4


class Counting(list[Any]):
    """Samples that count how often each was read."""

    reads = 0

    def __getitem__(self, index: Any) -> Any:
        self.reads += 1
        return super().__getitem__(index)


def test_runs_of_a_session_share_batches_and_prepare_each_sample_once(tmp_path: Path) -> None:
    plain = open_session(a_subject(dataset="vectors"), 2, MANIFESTS, tmp_path)
    samples = Counting(list(plain.supply.samples)[:3])
    session = replace(plain, supply=replace(plain.supply, samples=samples))
    runs = [a_run(name, samples=AHEAD, level="none", queries=9) for name in ("r0", "r1")]
    first = Recorded(session, runs[0], batch_size=2).perform()
    at_first = samples.reads
    second = Recorded(session, runs[1], batch_size=2).perform()
    plain.close()
    # Each stage asks once for the kind of its first sample.
    assert (at_first, samples.reads) == (3 + 1, 3 + 2)
    assert first.completed("r0").conditions.prepared_batches == 3
    assert [a[1:] for a in first.answers("r0")] == [a[1:] for a in second.answers("r1")]


def test_samples_that_occur_often_are_copied_also_bad_ones(tmp_path: Path) -> None:
    subject, manifests = pictures(tmp_path)
    plain = open_session(subject, 5, manifests, tmp_path)
    session = replace(plain, supply=replace(plain.supply, workers=4))
    recorded = both(session, batch_size=5, queries=6, level="none")
    plain.close()
    assert recorded.queries(AHEAD) == recorded.queries(STREAMED)
    assert recorded.errors(AHEAD) == recorded.errors(STREAMED)
    assert recorded.answers(AHEAD) == recorded.answers(STREAMED)


def test_preparation_of_many_batches_is_traced_up_to_a_number_of_samples(tmp_path: Path) -> None:
    session = open_session(a_subject("digits", "digits"), 64, MANIFESTS, tmp_path)
    queries = 2 * TRACED_SAMPLES // 64
    run = a_run("r0", samples=AHEAD, queries=queries)
    spans = Recorded(session, run, batch_size=64).perform().spans("r0")
    session.close()
    assert [name for name, *_ in spans].count("prepare") == TRACED_SAMPLES // 64
    assert [name for name, *_ in spans].count("answer") == queries


def test_too_little_memory_streams_and_names_both_numbers_and_the_setting(tmp_path: Path) -> None:
    allowances = Allowances(ahead_bytes=100)
    session = open_session(a_subject(), 1, MANIFESTS, tmp_path, allowances=allowances)
    few, many = a_run("few", samples=AHEAD, queries=3), a_run("many", samples=AHEAD, queries=5)
    recorded = Recorded(session, few, many).perform()
    session.close()
    assert recorded.completed("few").conditions.samples == AHEAD
    outcome = recorded.completed("many")
    assert (outcome.conditions.samples, outcome.conditions.prepared_batches) == (STREAMED, 0)
    (caveat,) = outcome.caveats
    assert caveat == (
        "samples were streamed, not prepared ahead: 5 prepared batches need 160 B of memory, "
        "100 B are allowed (setting MLSCOPE_AHEAD_BYTES)"
    )


def test_outputs_that_no_warm_up_told_are_counted_where_they_are_known(tmp_path: Path) -> None:
    subject = a_subject().model_copy(update={"warmup": 0})
    session = open_session(subject, 1, MANIFESTS, tmp_path, allowances=Allowances(ahead_bytes=100))
    recorded = Recorded(session, a_run("many", samples=AHEAD, queries=5)).perform()
    session.close()
    outcome = recorded.completed("many")
    assert outcome.conditions.samples == STREAMED
    assert "5 prepared batches need 160 B of memory, 100 B are allowed" in outcome.caveats[0]


def test_batches_that_no_run_of_an_order_needs_make_room(tmp_path: Path) -> None:
    allowances = Allowances(ahead_bytes=100)
    session = open_session(a_subject(), 1, MANIFESTS, tmp_path, allowances=allowances)
    for seed in range(3):
        run = a_run("r0", samples=AHEAD, queries=3, sample_seed=seed)
        recorded = Recorded(session, run).perform()
        assert recorded.completed("r0").conditions.samples == AHEAD
        streamed = Recorded(session, a_run("r0", samples=STREAMED, queries=3, sample_seed=seed))
        assert streamed.perform().answers("r0") == recorded.answers("r0")
    session.close()


class Changed:
    """A predictor in whose calls something else happens; `call` counts from 0."""

    def __init__(self, inner: Predictor) -> None:
        self.inner, self.calls = inner, 0

    @property
    def opened(self) -> Opened:
        """Return what was opened."""
        return self.inner.opened

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs."""
        self.calls += 1
        outputs = {name: array.copy() for name, array in self.inner.predict(inputs).items()}
        self.change(inputs, outputs)
        return outputs

    def change(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Change tensors of a call."""

    def forget_arrays(self) -> None:
        """Release what was bound."""
        self.inner.forget_arrays()  # type: ignore[attr-defined]

    def close(self) -> None:
        """Close the model."""
        self.inner.close()


class InPlace(Changed):
    """A model that doubles its inputs where they are."""

    def change(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Double the inputs."""
        del outputs
        for array in inputs.values():
            array *= 2


def test_a_model_that_changes_its_inputs_in_place_is_streamed(tmp_path: Path) -> None:
    plain = open_session(a_subject(), 1, MANIFESTS, tmp_path)
    session = replace(plain, predictor=InPlace(plain.predictor))
    recorded = Recorded(session, a_run("a", samples=AHEAD), a_run("b", samples=AHEAD)).perform()
    expected = Recorded(plain, a_run("c", samples=STREAMED)).perform()
    plain.close()
    for run in ("a", "b"):
        outcome = recorded.completed(run)
        assert outcome.conditions.samples == STREAMED
        assert outcome.caveats == (
            "samples were streamed, not prepared ahead: the model changes its inputs in place",
        )
        assert [a[1:] for a in recorded.answers(run)] == [a[1:] for a in expected.answers("c")]


class Cramped(Changed):
    """A model with device memory for the arrays of four batches."""

    def __init__(self, inner: Predictor) -> None:
        super().__init__(inner)
        self.bound: dict[int, Any] = {}

    def change(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Bind the inputs."""
        del outputs
        self.bound[id(inputs)] = inputs
        if len(self.bound) > 4:
            raise PredictFailed("CUDA error: out of memory")

    def forget_arrays(self) -> None:
        """Release what was bound."""
        self.bound.clear()
        super().forget_arrays()


def test_batches_that_exhaust_a_device_s_memory_are_streamed(tmp_path: Path) -> None:
    plain = open_session(a_subject(), 1, MANIFESTS, tmp_path)
    session = replace(plain, predictor=Cramped(plain.predictor))
    runs = [a_run(name, samples=AHEAD, queries=6) for name in ("a", "b")]
    recorded = Recorded(session, *runs).perform()
    plain.close()
    for run in ("a", "b"):
        outcome = recorded.completed(run)
        assert (outcome.conditions.samples, outcome.tally.failed_queries) == (STREAMED, 0)
        (caveat,) = outcome.caveats
        assert caveat == (
            "samples were streamed, not prepared ahead: memory for its batches is exhausted: "
            "predict: CUDA error: out of memory"
        )


class Drifting(Changed):
    """A model whose outputs grow by one from the ninth call on."""

    def change(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Grow the outputs."""
        del inputs
        for array in outputs.values():
            array += self.calls > 8


def test_an_answer_in_the_clock_that_differs_from_the_first_is_kept_too(tmp_path: Path) -> None:
    plain = open_session(a_subject(), 1, MANIFESTS, tmp_path)
    session = replace(plain, predictor=Drifting(plain.predictor))
    recorded = Recorded(session, a_run("r0", samples=AHEAD, queries=4)).perform()
    plain.close()
    # Four calls prepare the batches, and four make the first block.
    assert [a[:2] for a in recorded.answers("r0")] == [(n, n % 4) for n in range(8)]
    assert recorded.completed("r0").conditions.repeats_compared == 8


def test_answers_that_differ_are_post_processed_after_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stages, "settle_repeats", lambda _: None)
    plain = open_session(a_subject(), 1, MANIFESTS, tmp_path)
    session = replace(plain, predictor=Drifting(plain.predictor))
    recorded = Recorded(session, a_run("r0", samples=AHEAD, queries=4)).perform()
    plain.close()
    # The equal ones of the first block are counted at once; those of the second still wait.
    assert [a[:2] for a in recorded.answers("r0")] == [(n, n) for n in range(4)]
    assert recorded.completed("r0").conditions.repeats_compared == 4


class Stopping(Changed):
    """A model during whose third call the run is stopped."""

    control = Control()

    def change(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Stop the run."""
        del inputs, outputs
        if self.calls == 3:
            self.control.stop(AttemptKey("e1", "r0", 1), "cancelled")


def test_a_run_is_stopped_while_its_batches_are_prepared(tmp_path: Path) -> None:
    plain = open_session(a_subject(), 1, MANIFESTS, tmp_path)
    stopping = Stopping(plain.predictor)
    run, other = a_run("r0", samples=AHEAD), a_run("r1", samples=AHEAD)
    recorded = Recorded(replace(plain, predictor=stopping), run, other)
    stopping.control = recorded.control
    recorded.perform()
    plain.close()
    outcome = recorded.outcomes["r0"]
    assert isinstance(outcome, RunFailed)
    assert (outcome.error, outcome.message) == ("stopped", "cancelled")
    assert recorded.queries("r0") == []
    assert len(recorded.completed("r1").blocks) == 2
    # The other run predicts its five batches before the clock, and in two blocks.
    assert stopping.calls == 3 + 5 + 2 * 5


class Raising(Changed):
    """A model that raises for batches with the sample 1 of `samples`."""

    samples: Any = ()

    def change(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Raise for that sample."""
        del outputs
        (array,) = inputs.values()
        if any(np.array_equal(row, self.samples[1]) for row in array):
            raise PredictFailed("no such word")


def test_a_sample_the_model_raises_for_fails_in_every_query_of_its_batch(tmp_path: Path) -> None:
    plain = open_session(a_subject(), 2, MANIFESTS, tmp_path)
    raising = Raising(plain.predictor)
    raising.samples = plain.supply.samples
    runs = [a_run(name, samples=AHEAD, level="none", queries=3) for name in ("a", "b")]
    runs.append(a_run("c", samples=STREAMED, queries=3, level="none"))
    recorded = Recorded(replace(plain, predictor=raising), *runs, batch_size=2).perform()
    plain.close()
    for run in ("a", "b"):
        assert recorded.queries(run) == recorded.queries("c")
        assert recorded.errors(run) == recorded.errors("c")
        assert recorded.answers(run) == recorded.answers("c")
        assert recorded.completed(run).caveats == recorded.completed("c").caveats[1:]
    assert recorded.errors("a") == ["sample 1: predict: no such word"] * 2


class Flaky(Changed):
    """A model that raises once, at its fourth call or another."""

    def __init__(self, inner: Predictor, raises_at: int = 4) -> None:
        super().__init__(inner)
        self.raises_at = raises_at

    def change(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Raise at that call."""
        del inputs, outputs
        if self.calls == self.raises_at:
            raise PredictFailed("try again")


def test_a_call_that_fails_before_the_clock_alone_is_a_caveat(tmp_path: Path) -> None:
    plain = open_session(a_subject(), 1, MANIFESTS, tmp_path)
    session = replace(plain, predictor=Flaky(plain.predictor, raises_at=2))
    recorded = Recorded(session, a_run("r0", samples=AHEAD, queries=2)).perform()
    plain.close()
    assert [status for *_, status, _ in recorded.queries("r0")] == [0] * 4
    assert [sample for _, sample, _ in recorded.answers("r0")] == [0]
    assert recorded.completed("r0").caveats == (
        "1 call failed before the clock and left no answer, first: predict: try again",
    )


def test_a_call_that_fails_before_the_clock_fails_unusable_samples_alone(tmp_path: Path) -> None:
    subject, manifests = pictures(tmp_path)
    plain = open_session(subject, 5, manifests, tmp_path)
    steady, flaky = (
        Recorded(replace(plain, predictor=predictor), run, batch_size=5).perform()
        for run in [a_run("r0", samples=AHEAD, queries=1)]
        for predictor in (Changed(plain.predictor), Flaky(plain.predictor, raises_at=1))
    )
    plain.close()
    assert flaky.queries("r0") == steady.queries("r0")
    assert flaky.errors("r0") == steady.errors("r0") != []
    assert any("failed before the clock" in note for note in flaky.completed("r0").caveats)


def test_a_call_that_fails_in_the_clock_leaves_its_batch_as_it_is(tmp_path: Path) -> None:
    plain = open_session(a_subject(), 2, MANIFESTS, tmp_path)
    session = replace(plain, predictor=Flaky(plain.predictor))
    run = a_run("r0", samples=AHEAD, queries=2)
    # Two calls prepare the batches: the fourth one is that of the second query.
    recorded = Recorded(session, run, batch_size=2).perform()
    plain.close()
    assert [status for *_, status, _ in recorded.queries("r0")] == [0, 1, 0, 0]
    assert recorded.errors("r0") == ["predict: try again"]
    # All repeats but those of the failed query have the answers of before the clock.
    assert [a[:2] for a in recorded.answers("r0")] == [(0, 0), (0, 1), (1, 2), (1, 3)]
    assert recorded.completed("r0").conditions.repeats_compared == 6


def test_samples_of_unequal_shapes_fail_alone_in_either_mode(tmp_path: Path) -> None:
    subject = a_subject("tiny_cnn", "noise32", outputs=9)
    ports = (
        subject.model.inputs[0].model_copy(
            update={"steps": (Step(operator="cast", parameters={"element_type": "float32"}),)}
        ),
    )
    model = subject.model.model_copy(update={"inputs": ports})
    subject = subject.model_copy(update={"model": model, "dataset": a_synthetic((3, 32, 32))})
    plain = open_session(subject, 1, MANIFESTS, tmp_path)
    samples = [*plain.supply.samples][:3]
    samples[1] = samples[1][:, :16]
    session = replace(plain, supply=replace(plain.supply, samples=samples))
    recorded = both(session, queries=4)
    plain.close()
    assert [status for *_, status, _ in recorded.queries(AHEAD)] == [0, 1, 0, 0] * 2
    assert recorded.errors(AHEAD) == recorded.errors(STREAMED)
    assert "a sample has shape (3, 16, 32)" in recorded.errors(AHEAD)[0]


class Holding(Changed):
    """A predictor that reads copies of its inputs, as on a device; `adds` changes them in place."""

    holds_inputs = True

    def __init__(self, inner: Predictor, adds: float = 0.0) -> None:
        super().__init__(inner)
        self.adds = adds
        self.held: dict[int, dict[str, Any]] = {}

    def hold(self, inputs: Tensors) -> None:
        """Copy arrays."""
        self.held[id(inputs)] = {name: array.copy() for name, array in inputs.items()}

    def release(self, inputs: Tensors) -> None:
        """Drop copies."""
        self.held.pop(id(inputs), None)

    def is_held_unchanged(self, inputs: Tensors) -> bool:
        """Return whether the copies are still the arrays."""
        copies = self.held[id(inputs)]
        return all(np.array_equal(copies[name], array) for name, array in inputs.items())

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for the copies."""
        held = self.held.get(id(inputs))
        outputs = super().predict(held or inputs)
        for array in (held or {}).values():
            array += self.adds
        return outputs


def test_inputs_on_the_device_give_the_same_answers(tmp_path: Path) -> None:
    plain = open_session(a_subject(), 2, MANIFESTS, tmp_path)
    holding = Holding(plain.predictor)
    runs = [a_run(name, samples=AHEAD, queries=5) for name in ("a", "b")]
    recorded = Recorded(replace(plain, predictor=holding), *runs, batch_size=2).perform()
    expected = Recorded(plain, a_run("c", samples=STREAMED, queries=5), batch_size=2).perform()
    plain.close()
    assert len(holding.held) == 5
    for run in ("a", "b"):
        assert recorded.answers(run) == expected.answers("c")
        assert recorded.completed(run).conditions.inputs == "device"
        assert recorded.completed(run).caveats == ()


@pytest.mark.parametrize(("samples", "adds"), [(STREAMED, 0.0), (AHEAD, 1.0)])
def test_streamed_inputs_are_not_on_the_device_which_is_said(
    tmp_path: Path, samples: str, adds: float
) -> None:
    plain = open_session(a_subject(), 1, MANIFESTS, tmp_path)
    session = replace(plain, predictor=Holding(plain.predictor, adds))
    outcome = Recorded(session, a_run("r", samples=samples)).perform().completed("r")
    plain.close()
    assert outcome.conditions.inputs == ""
    said = "\n".join(outcome.caveats)
    assert ("in place" in said) == (samples == AHEAD)
    assert "inputs: device has no effect" in said


class HoldingRaising(Raising, Holding):
    """One that raises for a sample."""


def test_a_sample_that_the_model_raises_for_fails_alone_with_inputs_on_the_device(
    tmp_path: Path,
) -> None:
    plain = open_session(a_subject(), 2, MANIFESTS, tmp_path)
    outcomes = []
    for predictor in (Raising(plain.predictor), HoldingRaising(plain.predictor)):
        predictor.samples = plain.supply.samples
        session = replace(plain, predictor=predictor)
        run = a_run("r", samples=AHEAD, queries=3)
        recorded = Recorded(session, run, batch_size=2).perform()
        outcomes.append((recorded.queries("r"), recorded.errors("r"), recorded.answers("r")))
    plain.close()
    assert outcomes[0] == outcomes[1]
    assert [failed for *_, failed in outcomes[0][0]][:3] == [1, -1, -1]


class Full(Holding):
    """One whose device has no memory for copies."""

    def hold(self, inputs: Tensors) -> None:
        """Refuse."""
        del inputs
        raise PredictFailed("CUDA out of memory")


def test_a_device_without_memory_for_inputs_streams_and_says_so(tmp_path: Path) -> None:
    plain = open_session(a_subject(), 1, MANIFESTS, tmp_path)
    session = replace(plain, predictor=Full(plain.predictor))
    outcome = Recorded(session, a_run("r", samples=AHEAD)).perform().completed("r")
    plain.close()
    assert outcome.conditions.samples == STREAMED
    assert "CUDA out of memory" in outcome.caveats[0]
    assert "inputs: device has no effect" in outcome.caveats[1]
