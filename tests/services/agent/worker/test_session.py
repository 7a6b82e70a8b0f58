"""One opened model: its slots, its conditions."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from schemas.level import Level
from schemas.plan import Subject
from services.agent.errors import (
    AgentError,
    DatasetUnusable,
    MemoryExhausted,
    OpenFailed,
)
from services.agent.machine.hardware import processor_name
from services.agent.worker.opening import open_session
from services.agent.worker.preparation.shares import LEAST_SLOTS
from services.agent.worker.session import Session
from tests.services.agent.builders import MANIFESTS, a_subject, a_synthetic, raw_port


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Open a small model for two samples at a time."""
    opened = open_session(a_subject("tiny_cnn", "noise32", warmup=4), 2, MANIFESTS, tmp_path)
    yield opened
    opened.close()


def test_slots_have_the_model_s_own_shape(session: Session) -> None:
    assert [slot.arrays[0].shape for slot in session.slots] == [(2, 3, 32, 32)] * LEAST_SLOTS
    assert {slot.arrays[0].dtype for slot in session.slots} == {np.dtype("float32")}
    assert session.deepest_level == Level.FRAMEWORK


def test_conditions_name_what_was_really_used(session: Session) -> None:
    conditions = session.conditions(7, {"load": 1})
    assert (conditions.seed, conditions.noise, conditions.warmup_queries) == (7, {"load": 1}, 4)
    assert list(conditions.checksums) == ["tiny_cnn/model.onnx"]
    assert (conditions.processor, conditions.accelerator) == (processor_name(), "")
    assert conditions.first_run_ns > 0 < conditions.load_ns
    assert conditions.prepared_by == ""
    assert conditions.memory_bytes == session.predictor.opened.memory_bytes


@pytest.mark.parametrize(
    ("attributes", "size"),
    [({"weights_megabytes": 1.5}, 3 << 19), ({"parameters": 7}, 28), ({}, None)],
)
def test_conditions_tell_the_size_that_the_manifest_states(
    session: Session, attributes: dict[str, float], size: int | None
) -> None:
    model = session.subject.model.model_copy(update={"attributes": attributes})
    stated = replace(session, subject=session.subject.model_copy(update={"model": model}))
    assert stated.conditions(None, {}).model_size_bytes == size


def test_conditions_say_how_many_threads_prepared(session: Session) -> None:
    assert session.conditions(None, {}).prepare_threads == 1
    shared = replace(session, supply=replace(session.supply, workers=5))
    assert shared.conditions(None, {}).prepare_threads == 5


def several_inputs() -> Subject:
    subject = a_subject()
    inputs = (raw_port("x", (-1, 4)), raw_port("y", (-1, 4)))
    return subject.model_copy(update={"model": subject.model.model_copy(update={"inputs": inputs})})


@pytest.mark.parametrize(
    ("subject", "error", "named"),
    [
        (several_inputs(), OpenFailed, "has 1 inputs, its manifest describes 2"),
        (
            a_subject().model_copy(update={"dataset": a_synthetic((5,))}),
            DatasetUnusable,
            "holds float32[5], the model takes float32[4]",
        ),
        (
            a_subject().model_copy(update={"dataset": a_synthetic((4,), element_type="int32")}),
            DatasetUnusable,
            "holds int32[4], the model takes float32[4]",
        ),
    ],
    ids=["inputs", "shape", "element type"],
)
def test_what_does_not_fit_is_named(
    tmp_path: Path, subject: Subject, error: type[AgentError], named: str
) -> None:
    with pytest.raises(error) as caught:
        open_session(subject, 1, MANIFESTS, tmp_path)
    assert named in str(caught.value)


def test_a_batch_beyond_all_memory_is_refused_for_good(tmp_path: Path) -> None:
    with pytest.raises(MemoryExhausted, match="batch size 1000000000 needs more memory") as caught:
        open_session(a_subject("tiny_cnn", "noise32"), 1_000_000_000, MANIFESTS, tmp_path)
    assert caught.value.kind == "batch_size"
