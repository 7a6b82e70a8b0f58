"""Whole runs on a GPU: each answer is its own batch's, wherever inputs lie and are normalised."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from mlscope.tracing.batches import ANSWERED
from services.agent.link.allowances import Allowances
from services.agent.predictors import COPY_IN, Pending, Tensors
from services.agent.predictors.page_locking import LOCKED
from services.agent.predictors.pytorch.gpu import GpuPredictor
from services.agent.worker.opening import SessionEnvironment, open_session_in
from services.agent.worker.session import Session
from tests.services.agent.builders import MANIFESTS, a_run
from tests.services.agent.worker.files.test_normalizing import NORMALIZE, steps, subject
from tests.services.agent.worker.test_preparing_ahead import Recorded

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="NO GPU: PyTorch sees none")

BATCH, QUERIES, IN_FLIGHT = 4, 12, 6
SHAPE = [-1, 3, 32, 32]
MEAN, SCALE = (
    np.array(NORMALIZE["torchvision"][name], np.float32).reshape(3, 1, 1)
    for name in ("mean", "scale")
)
Expected = Callable[[Tensors], Any]


def as_it_is(inputs: Tensors) -> Any:
    return inputs["x"]


def normalised(inputs: Tensors) -> Any:
    assert inputs["x"].dtype == np.uint8
    return (inputs["x"].astype(np.float32) - MEAN) / SCALE


class Compared:
    """The calls of a predictor whose model answers with its input, each compared with that."""

    def __init__(self, inner: GpuPredictor, expected: Expected) -> None:
        self.inner, self.expected = inner, expected
        self.begun = self.compared = self.most_under_way = 0
        self.holds_inputs, self.hold, self.release = inner.holds_inputs, inner.hold, inner.release
        self.is_held_unchanged, self.close = inner.is_held_unchanged, inner.close
        self.predict_parts, self.forget_arrays = inner.predict_parts, inner.forget_arrays

    @property
    def opened(self) -> Any:
        """Return what was opened."""
        return self.inner.opened

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs of a call."""
        return self.compare(inputs, self.inner.predict(inputs))

    def begin(self, inputs: Tensors) -> Pending:
        """Begin a call."""
        self.begun += 1
        self.most_under_way = max(self.most_under_way, self.begun - self.compared)
        return ComparedLater(self, inputs, self.inner.begin(inputs))

    def compare(self, inputs: Tensors, outputs: Tensors) -> Tensors:
        """Return outputs that are those of the inputs, as these are now."""
        answer: Any = outputs["y"]
        np.testing.assert_allclose(answer, self.expected(inputs), rtol=0, atol=1e-6)
        return outputs


class ComparedLater:
    """A call that was begun, and is compared once it is waited for."""

    def __init__(self, calls: Compared, inputs: Tensors, pending: Pending) -> None:
        self.calls, self.inputs, self.pending = calls, inputs, pending

    def wait(self) -> Tensors:
        """Return the outputs."""
        outputs = self.calls.compare(self.inputs, self.pending.wait())
        self.calls.compared += 1
        return outputs


@contextmanager
def opened(folder: Path, normalize: str, options: Mapping[str, Any]) -> Iterator[Session]:
    before = steps("NCHW", **NORMALIZE["torchvision"])
    what = subject(normalize, before, SHAPE, **options)
    on_gpu = what.model_copy(update={"device": "gpu"})
    allowances = Allowances(builders=("torch.nn",))
    environment = SessionEnvironment(folder, allowances, in_flight=IN_FLIGHT)
    session = open_session_in(environment, on_gpu, BATCH, MANIFESTS, {})
    try:
        yield session
    finally:
        session.close()


@pytest.mark.parametrize("samples", ["ahead", "streamed"])
@pytest.mark.parametrize(
    ("normalize", "options", "expected"),
    [
        ("host", {}, as_it_is),
        ("device", {}, normalised),
        ("host", {"graphs": True}, as_it_is),
        ("device", {"graphs": True}, normalised),
        ("host", {"inputs": "device"}, as_it_is),
    ],
)
def test_overlapped_calls_answer_their_own_batches(
    tmp_path: Path, samples: str, normalize: str, options: dict[str, Any], expected: Expected
) -> None:
    with opened(tmp_path, normalize, options) as session:
        assert isinstance(session.predictor, GpuPredictor)
        compared = Compared(session.predictor, expected)
        run = a_run(
            "r", scenario="batched", samples=samples, queries=QUERIES, concurrency=IN_FLIGHT
        )
        recorded = Recorded(replace(session, predictor=compared), run, batch_size=BATCH).perform()
        completed = recorded.completed("r")
        assert recorded.errors("r") == []
        assert completed.conditions.samples == samples
        assert completed.conditions.host_memory == LOCKED
        assert completed.conditions.calls_in_flight == 2
        assert compared.compared == 2 * QUERIES
        assert compared.most_under_way <= 2
        assert (samples == "streamed") is (completed.conditions.prepare_processes > 0)


@pytest.mark.parametrize("normalize", ["host", "device"])
def test_a_fourth_of_the_bytes_is_copied_where_the_device_normalises(
    tmp_path: Path, normalize: str
) -> None:
    with opened(tmp_path, normalize, {}) as session:
        size_bytes = session.slots[0].inputs["x"].nbytes
        assert size_bytes == BATCH * 3 * 32 * 32 * (1 if normalize == "device" else 4)
        notes = [note for note in session.notes if "runs on the device" in note]
        print(*notes)  # noqa: T201
        assert len(notes) == (normalize == "device")


def test_inputs_on_the_device_are_copied_before_the_clock(tmp_path: Path) -> None:
    spent_ns = {}
    for place in ("host", "device"):
        with opened(tmp_path / place, "host", {"inputs": place}) as session:
            run = a_run("r", samples="ahead", queries=QUERIES)
            recorded = Recorded(session, run, batch_size=BATCH).perform()
            conditions = recorded.completed("r").conditions
            assert (conditions.samples, conditions.options["inputs"]) == ("ahead", place)
            assert isinstance(session.predictor, GpuPredictor)
            inputs = session.slots[0].inputs
            if place == "device":
                session.predictor.hold(inputs)
            for _ in range(5):
                outputs, parts = session.predictor.predict_parts(inputs)
            assert np.array_equal(outputs["y"], inputs["x"])
            spent_ns[place] = {part.name: part.duration_ns for part in parts}[COPY_IN]
    print(spent_ns)  # noqa: T201
    assert spent_ns["device"] < spent_ns["host"]


@pytest.mark.parametrize("samples", ["ahead", "streamed"])
@pytest.mark.parametrize("normalize", ["host", "device"])
def test_pictures_decoded_on_the_gpu_are_those_of_the_host(
    tmp_path: Path, samples: str, normalize: str
) -> None:
    pytest.importorskip("torchvision")
    answers: dict[str, Any] = {}
    expected = as_it_is if normalize == "host" else normalised
    for place in ("host", "device"):
        with opened(tmp_path / place, normalize, {"decode": place}) as session:
            assert isinstance(session.predictor, GpuPredictor)
            answers[place] = np.array(session.predictor.predict(session.slots[0].inputs)["y"])
            compared = Compared(session.predictor, expected)
            run = a_run(
                "r", scenario="batched", samples=samples, queries=QUERIES, concurrency=IN_FLIGHT
            )
            again = replace(session, predictor=compared)
            recorded = Recorded(again, run, batch_size=BATCH).perform()
            conditions = recorded.completed("r").conditions
            assert recorded.errors("r") == []
            assert (conditions.samples, conditions.options["decode"]) == (samples, place)
            assert ("nvJPEG" in conditions.prepared_by) is (place == "device")
            assert place == "host" or conditions.prepare_processes == 0
            notes = [note for note in session.notes if "nvJPEG" in note]
            print(*notes)  # noqa: T201
            assert len(notes) == (place == "device")
    distances = np.abs(answers["device"] - answers["host"]) * SCALE
    print(distances.mean(), distances.max())  # noqa: T201
    assert (answers["host"] * SCALE).std() > 20
    assert distances.mean() < 1
    assert distances.max() < 16


def test_a_file_that_nvjpeg_cannot_read_fails_alone(tmp_path: Path) -> None:
    pytest.importorskip("torchvision")
    with opened(tmp_path, "device", {"decode": "device"}) as session:
        good = session.supply.samples[0]
        middle = len(good) // 2
        samples = [good, b"\x89PNG\r\n", good[:-500], good[:20] + bytes(middle) + good[-2:]]
        supply = replace(session.supply, samples=samples)
        run = a_run("r", samples="streamed", queries=2)
        recorded = Recorded(replace(session, supply=supply), run, batch_size=BATCH).perform()
        (errors, *_) = recorded.errors("r")
        print(errors)  # noqa: T201
        for reason in ("not a JPEG file", "truncated", "not a readable JPEG picture"):
            assert reason in errors
        assert recorded.queries("r")[0][3:] == (ANSWERED, 3)
