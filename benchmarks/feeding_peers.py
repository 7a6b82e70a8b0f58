"""The same photographs and model fed by others: PyTorch's DataLoader and MLPerf's LoadGen.

The model is EfficientNet-Lite0 on ONNX Runtime, one thread, called as its documentation says. The
loader's one worker process makes the calls of Pillow and NumPy that the model's steps make. LoadGen
issues its Offline scenario; samples are prepared before its clock starts, as its rules have it.
Its system under test is bare calls, or mlscope with samples ahead.
"""

import importlib.util
import io
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.feeding_gpu import rows_of
from mlscope.image_geometry import covering, cut_before
from schemas.plan import WorkOrder
from schemas.run import RunCompleted
from services.agent.worker.control import Control
from services.agent.worker.group import Group
from services.agent.worker.measurement import Measurement
from services.agent.worker.queries.ahead import BatchOf
from services.agent.worker.queries.query import Query
from services.agent.worker.queries.streaming import OnFinished
from services.agent.worker.session import Session
from services.agent.worker.session_opener import SessionOpener

MODEL = Path(__file__).parents[1] / "manifests/models/efficientnet_lite0/model.onnx"
SIDE, COVERED = 224, 256
INSTALL = "not measured: pip install mlcommons-loadgen"

Predict = Callable[[Any], Any]
Answered = Callable[[Sequence[Any]], None]
"""Tells LoadGen that the outputs of some samples have arrived."""


def bare_model() -> Predict:
    """Return a plain session's call, one thread."""
    import onnxruntime as ort

    settings = ort.SessionOptions()
    settings.intra_op_num_threads = 1
    session = ort.InferenceSession(str(MODEL), settings, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda array: session.run(None, {name: array})


def prepared(body: bytes) -> np.ndarray:
    """Return a photograph as the model takes it, [3, 224, 224] float32."""
    picture = Image.open(io.BytesIO(body)).convert("RGB")
    height, width = covering((picture.height, picture.width), (COVERED, COVERED))
    picture = picture.resize((width, height), Image.Resampling.BICUBIC)
    left, top = (cut_before(edge - SIDE, centred=True) for edge in picture.size)
    pixels = np.asarray(picture.crop((left, top, left + SIDE, top + SIDE)), np.float32)
    return np.ascontiguousarray(((pixels - 127.0) / 128.0).transpose(2, 0, 1))


class Photographs:
    """What the loader reads: `count` samples, the `bodies` again and again."""

    def __init__(self, bodies: Sequence[bytes], count: int) -> None:
        """Keep the bodies; they go to the worker process."""
        self._bodies, self._count = bodies, count

    def __len__(self) -> int:
        """Return the number of samples."""
        return self._count

    def __getitem__(self, number: int) -> np.ndarray:
        """Return a sample."""
        return prepared(self._bodies[number % len(self._bodies)])


def by_data_loader(
    predict: Predict, bodies: Sequence[bytes], batch_size: int, batches: int
) -> tuple[float, float]:
    """Return samples a second, from the first answer to the last, and ms of a predict call."""
    import torch.utils.data

    loader: Any = torch.utils.data.DataLoader(
        Photographs(bodies, batches * batch_size),
        batch_size=batch_size,
        num_workers=1,
    )
    times_ms, ends = [], []
    for batch in loader:
        began = time.perf_counter()
        predict(batch.numpy())
        ends.append(time.perf_counter())
        times_ms.append((ends[-1] - began) * 1e3)
    return (len(ends) - 1) * batch_size / (ends[-1] - ends[0]), median(times_ms)


def has_loadgen() -> bool:
    """Whether LoadGen is installed."""
    return importlib.util.find_spec("mlperf_loadgen") is not None


def by_loadgen(
    predict: Predict, bodies: Sequence[bytes], batch_size: int, batches: int
) -> tuple[float, float]:
    """Return the samples a second of LoadGen's Offline scenario, and ms of a predict call."""
    library: dict[int, np.ndarray] = {}
    times_ms: list[float] = []

    def load(indices: Sequence[int]) -> None:
        library.update({index: prepared(bodies[index % len(bodies)]) for index in indices})

    def issue(samples: Sequence[Any], answered: Answered) -> None:
        for first in range(0, len(samples), batch_size):
            chunk = samples[first : first + batch_size]
            array = np.stack([library[sample.index] for sample in chunk])
            began = time.perf_counter()
            predict(array)
            times_ms.append((time.perf_counter() - began) * 1e3)
            answered(chunk)

    rate = offline(issue, load, lambda _: library.clear(), batches * batch_size)
    assert len(times_ms) == batches, len(times_ms)
    return rate, median(times_ms)


def offline(
    issue: Callable[[Sequence[Any], Answered], None],
    load: Callable[[Sequence[int]], None],
    unload: Callable[[Sequence[int]], None],
    count: int,
) -> float:
    """Return the samples a second of LoadGen's Offline scenario, of `count` samples.

    `issue` predicts the query's samples, and passes those whose outputs have arrived to the
    function that it is given; `load` and `unload` put samples into memory before the clock, and
    take them out after it.
    """
    import mlperf_loadgen as lg

    stamps = []

    def answered(samples: Sequence[Any]) -> None:
        lg.QuerySamplesComplete([lg.QuerySampleResponse(sample.id, 0, 0) for sample in samples])

    def issue_between_stamps(samples: Sequence[Any]) -> None:
        stamps.append(time.perf_counter())
        issue(samples, answered)
        stamps.append(time.perf_counter())

    settings = lg.TestSettings()
    settings.scenario, settings.mode = lg.TestScenario.Offline, lg.TestMode.PerformanceOnly
    # One query has them all: the least number of queries is taken for that of its samples.
    settings.min_query_count = settings.max_query_count = count
    settings.min_duration_ms, settings.offline_expected_qps = 0, float(count)
    under_test = lg.ConstructSUT(issue_between_stamps, lambda: None)
    samples = lg.ConstructQSL(count, count, load, unload)
    with tempfile.TemporaryDirectory() as folder:
        output, logs = lg.LogOutputSettings(), lg.LogSettings()
        output.outdir = folder
        logs.log_output, logs.enable_trace = output, False
        lg.StartTestWithLogSettings(under_test, samples, settings, logs)
    lg.DestroyQSL(samples)
    lg.DestroySUT(under_test)
    return count / (stamps[-1] - stamps[0])


class GroupUnderLoadGen(Group):
    """Performs a run whose samples are prepared ahead, and whose queries LoadGen issues at once."""

    #: samples a second
    rate_hz = 0.0

    def _run_closed_ahead(
        self,
        run: Measurement,
        batch_of: BatchOf,
        queries: Iterator[Query],
        on_finished: OnFinished,
    ) -> None:
        size, perform = self._order.session.batch_size, super()._run_closed_ahead

        def issue(samples: Sequence[Any], answered: Answered) -> None:
            in_place = sorted(samples, key=lambda sample: sample.index)
            chunks = iter(
                [in_place[first : first + size] for first in range(0, len(samples), size)]
            )

            def finished(query: Query) -> None:
                on_finished(query)
                answered(next(chunks))

            perform(run, batch_of, queries, finished)

        count = run.load.queries * size
        self.rate_hz = offline(issue, lambda _: None, lambda _: None, count)


def mlscope_by_loadgen(
    session: Session, order: WorkOrder, opener: SessionOpener
) -> tuple[float, float]:
    """Return what `by_loadgen` does, of a run of an `order` in its open `session`."""
    bodies: list[bytes] = []

    def keep(body: bytes) -> bool:
        bodies.append(body)
        return True

    group = GroupUnderLoadGen(session, order, Control(), keep, lambda _: None, opener)
    (outcome,) = group.perform()
    assert isinstance(outcome, RunCompleted), outcome
    assert group.rate_hz, "the run's samples were not prepared ahead"
    predicts, _ = rows_of(outcome.run, bodies)
    return group.rate_hz, float(np.median(predicts["duration_ns"])) / 1e6
