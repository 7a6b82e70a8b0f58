"""What preparation beside a model does to it, and how near both come to the slower one alone.

`python -m benchmarks.feeding [--quick] [--turns 9] [--batch-size 32] [--in-flight 4] [--keep]
[--processes N] [--threads N] [--device-ms 0 40 100]`

A run streams the shipped photographs through the steps of ResNet-50 to a model of known behaviour:
174 calls that let the interpreter go and take it again, as many as ResNet-50 launches, and behind
them a device that works for a known time and holds nothing. Preparation is the product's own, by
its pool of processes, and for comparison by the threads that it falls back to.

Contamination is the median time of a predict call in such a run over that of the same calls alone,
before and after it. Waiting for the interpreter is the mean time in which a call that launches
only is neither on a core nor waiting for one, beside preparation flat out. The ratio to the bound
is the throughput of the run, from the end of the first round of slots, over min(preparation alone,
model alone). Runs and what they are compared with alternate; wanted of the processes: contamination
at most 2 %, waiting at most 0.05 ms, ratio at least 0.95.

Then a real model (`feeding_model`): ahead beside a bare loop at batch sizes of 1, 8 and 32,
streamed beside its bound, and beside PyTorch's DataLoader and MLPerf's LoadGen (the extra `bench`)
with the same model and photographs. LoadGen calls the bare model, and mlscope.
"""

import argparse
import os
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

import numpy as np
import yaml

from benchmarks import feeding_model
from benchmarks.claims import claim
from benchmarks.feeding_model import Claim
from benchmarks.feeding_peers import INSTALL, has_loadgen
from benchmarks.timing import keeping
from mlscope.tracing.batches import Attempt
from mlscope.tracing.clock import now_ns
from schemas.level import Level
from schemas.manifest import DatasetManifest, ModelManifest
from services.agent.link.allowances import PreparationLimits
from services.agent.predictors import TensorPlace, Tensors
from services.agent.predictors.options import usable_cores
from services.agent.worker.files.datasets import load_samples
from services.agent.worker.files.model_files import AssetFolder
from services.agent.worker.preparation.order import PreparationOrder
from services.agent.worker.preparation.predicting import Predicting
from services.agent.worker.preparation.session_pool import SessionPool
from services.agent.worker.preparation.shares import LEAST_SLOTS, processes_for
from services.agent.worker.queries.inputs import Inputs
from services.agent.worker.queries.issuing import ClosedLoop
from services.agent.worker.queries.operator_runner import Supply
from services.agent.worker.queries.pipeline import StepPlan, pipeline_of, steps_before, steps_of
from services.agent.worker.queries.query import Query, Slot
from services.agent.worker.queries.stages import Stages
from services.agent.worker.queries.streaming import run_streaming, workers_for
from services.agent.worker.recorder import RunRecorder

MANIFESTS = Path(__file__).parents[1] / "manifests"
MODEL = MANIFESTS / "models/torchvision/torchvision-resnet50.yml"
DATASET = MANIFESTS / "datasets/photos.yml"
SAMPLE = (3, 224, 224)
LAUNCHES = 174
_BODY = bytes(48_000)
"""zlib lets the interpreter go for more than 5 KiB; this takes about 7 us, as a launch does."""
_PAUSE_S = 0.03
"""Before each call alone: in a run the predicting thread waits as long for a batch."""
MOST_CONTAMINATION, LEAST_RATIO, MOST_START_S, MOST_WAITING_MS = 0.02, 0.95, 0.5, 0.05
_ALONE_CALLS = 8
_MOST_READS, _READ_NS = 20, 200_000

Predict = Callable[[Tensors], Tensors]


def launching(device_ms: float, batch_size: int) -> Predict:
    """Return a model that launches, and then waits for a device that works `device_ms`."""
    answer = {"y": np.zeros((batch_size, 10), np.float32)}

    def predict(_: Tensors) -> Tensors:
        until = time.perf_counter() + device_ms * 1e-3
        for _launch in range(LAUNCHES):
            zlib.crc32(_BODY)
        while (remaining_s := until - time.perf_counter()) > 0:
            time.sleep(remaining_s)
        return answer

    return predict


@dataclass(frozen=True, slots=True)
class Turn:
    """One comparison: ms of a predict call, and samples a second."""

    alone_ms: float
    beside_ms: float
    waiting_ms: float
    prepared_hz: float
    model_hz: float
    together_hz: float

    @property
    def contamination(self) -> float:
        """How much longer a call takes beside preparation, as a share."""
        return self.beside_ms / self.alone_ms - 1

    @property
    def ratio(self) -> float:
        """Throughput over the bound."""
        return self.together_hz / min(self.prepared_hz, self.model_hz)


class Calls:
    """The calls of a model, on whichever thread: how long each took, and waited meanwhile."""

    def __init__(self, predict: Predict) -> None:
        """Begin without any."""
        self._predict = predict
        self.times_ms: list[float] = []
        #: neither on a core nor waiting for one (the kernel's schedstat): for the interpreter
        #: where the model does not wait itself
        self.waiting_ms: list[float] = []

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs of a batch."""
        before = thread_clocks_ns()
        began_ns = time.perf_counter_ns()
        outputs = self._predict(inputs)
        self.times_ms.append((time.perf_counter_ns() - began_ns) / 1e6)
        wall_ns, cpu_ns, queued_ns = np.subtract(thread_clocks_ns(), before).tolist()
        self.waiting_ms.append((wall_ns - cpu_ns - queued_ns) / 1e6)
        return outputs


def thread_clocks_ns() -> tuple[int, int, int]:
    """Return the time, and how long this thread was on a core and waited for one, at one moment.

    They are read again where the thread lost its core in between.
    """
    schedule = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
    for _ in range(_MOST_READS):
        began_ns = time.perf_counter_ns()
        queued_ns = int(schedule.read_text().split()[1])
        clocks = time.perf_counter_ns(), time.thread_time_ns(), queued_ns
        if clocks[0] - began_ns < _READ_NS:
            break
    return clocks


class Feed:
    """The product's streaming over the photographs, by processes or by threads."""

    def __init__(self, options: argparse.Namespace, processes: int, scratch: Path) -> None:
        """Prepare in `processes`; where they are 0, in threads."""
        batch_size, threads = options.batch_size, options.threads
        self._in_flight, self._batches = options.in_flight, options.batches
        model = ModelManifest.model_validate(yaml.safe_load(MODEL.read_text()))
        dataset = DatasetManifest.model_validate(yaml.safe_load(DATASET.read_text()))
        plan = StepPlan(before=steps_of(model).before)
        place = TensorPlace("x", (batch_size, *SAMPLE), "float32")
        inputs = Inputs((place,), ("x",), (TensorPlace("x", SAMPLE, "float32"),), {})
        pipeline = inputs.named(pipeline_of(plan, lambda _: ()))
        samples = load_samples(dataset, AssetFolder(MANIFESTS, "datasets"))
        began = time.perf_counter()
        self.pool: SessionPool | None = None
        if processes:
            order = PreparationOrder(model, dataset, MANIFESTS, {}, scratch)
            limits = PreparationLimits(processes)
            self.pool = SessionPool(order, limits, processes + 2, self._in_flight)
            steps = steps_before(pipeline)
            self._slots = self.pool.slots(inputs, batch_size, steps, samples, Predicting(0))
            self.pool.plan(0, 0)
            self.pool.start()
            assert self.pool.is_started, self.pool.refusal
        else:
            self._slots = [inputs.slot() for _ in range(LEAST_SLOTS)]
        self.start_s = time.perf_counter() - began
        self._supply = Supply(pipeline, samples, batch_size, workers=threads, pool=self.pool)

    def run(self, predict: Predict) -> tuple[float, Calls]:
        """Return samples a second once the slots have been round, and the predict calls."""
        recorder = RunRecorder(Attempt("e", "r", 1, "a"), lambda _: True)
        ends: list[float] = []
        calls = Calls(predict)
        stages = Stages(self._supply, calls.predict, recorder, Level.MODEL)

        def finished(_: Query) -> None:
            ends.append(time.perf_counter())

        loop = ClosedLoop(self._queries(), self._in_flight)
        slots: list[Slot] = self._slots
        run_streaming(loop, stages, slots, recorder, finished, lambda: None)
        first = len(slots)
        count = len(ends) - 1 - first
        rate_hz = count * self._supply.batch_size / (ends[-1] - ends[first])
        del calls.times_ms[:first], calls.waiting_ms[:first]
        return rate_hz, calls

    def compare(self, predict: Predict) -> Turn:
        """Measure the model alone, preparation alone, both, and the model alone again."""
        before = calls_ms(predict)
        prepared_hz, launches = self.run(launching(0.0, self._supply.batch_size))
        together_hz, beside = self.run(predict)
        alone = [*before, *calls_ms(predict)]
        model_hz = self._supply.batch_size / (sum(alone) / len(alone)) * 1e3
        times_ms = median(alone), median(beside.times_ms), fmean(launches.waiting_ms)
        return Turn(*times_ms, prepared_hz, model_hz, together_hz)

    def close(self) -> None:
        """End the processes."""
        if self.pool is not None:
            self.pool.close()

    def _queries(self) -> Iterator[Query]:
        size, count = self._supply.batch_size, len(self._supply.samples)
        for number in range(self._batches):
            samples = [(number * size + place) % count for place in range(size)]
            yield Query(number, samples, now_ns())


def calls_ms(predict: Predict) -> list[float]:
    """Return the times of some calls with nothing beside them."""
    times = []
    for _ in range(_ALONE_CALLS):
        time.sleep(_PAUSE_S)
        began = time.perf_counter()
        predict({})
        times.append((time.perf_counter() - began) * 1e3)
    return times


def printed(name: str, turns: Sequence[Turn]) -> tuple[float, float]:
    """Print a row of medians; return contamination and ratio."""
    contaminations = sorted(turn.contamination for turn in turns)
    ratios = sorted(turn.ratio for turn in turns)
    fields = ("alone_ms", "beside_ms", "waiting_ms", "prepared_hz", "model_hz", "together_hz")
    values = [median(getattr(turn, field) for turn in turns) for field in fields]
    print(
        f"{name:30}{values[0]:9.3f}{values[1]:9.3f}{values[2]:9.3f}{values[3]:11.1f}{values[4]:11.1f}"
        f"{values[5]:11.1f}{median(contaminations):12.1%}"
        f" ({contaminations[0]:.1%} … {contaminations[-1]:.1%})"
        f"{median(ratios):8.3f} ({ratios[0]:.3f} … {ratios[-1]:.3f})",
        flush=True,
    )
    return median(contaminations), median(ratios)


def with_launches(
    options: argparse.Namespace, turns: int, folder: Path
) -> tuple[float, float, list[Claim]]:
    """Compare processes and threads beside models that launch, and print.

    Returns the worst contamination and ratio of the processes, and what is claimed of them.
    """
    models = {f"device {device_ms:g} ms": device_ms for device_ms in options.device_ms}
    contaminations, ratios, waiting_ms = [0.0], [1.0], list[float]()
    with ExitStack() as opened:
        feeds = {
            f"{options.processes} processes": Feed(options, options.processes, folder),
            f"{options.threads} threads": Feed(options, 0, folder),
        }
        for feed in feeds.values():
            opened.enter_context(closing(feed))
        by_processes, start_s = next(iter(feeds)), next(iter(feeds.values())).start_s
        print(f"the pool started in {start_s:.2f} s")
        print(
            f"{'':30}{'alone ms':>9}{'beside':>9}{'waiting':>9}{'prepared/s':>11}{'model/s':>11}"
            f"{'both/s':>11}{'longer':>12}{'both/bound':>25}"
        )
        for model, device_ms in models.items():
            measured: dict[str, list[Turn]] = {name: [] for name in feeds}
            for turn in range(turns + 1):
                for name in list(feeds)[:: -1 if turn % 2 else 1]:
                    predict = launching(device_ms, options.batch_size)
                    measured[name].append(feeds[name].compare(predict))
            figures = {name: printed(f"{model}, {name}", measured[name][1:]) for name in feeds}
            contaminations.append(figures[by_processes][0])
            ratios.append(figures[by_processes][1])
            waiting_ms += [turn.waiting_ms for turn in measured[by_processes][1:]]
    text = "waiting for the interpreter in a call, ms"
    rows = [
        Claim(text, waiting_ms, MOST_WAITING_MS, is_most=True),
        Claim("start of the pool, s", [start_s], MOST_START_S, is_most=True),
    ]
    return max(contaminations), min(ratios), rows


def measure(options: argparse.Namespace) -> int:
    """Measure in turns and print; return how many limits the processes missed."""
    began = time.monotonic()
    turns = 3 if options.quick else options.turns
    print(
        f"batch {options.batch_size}, {options.in_flight} in flight, {options.batches} batches a "
        f"run, medians of {turns} turns, {usable_cores()} cores, load {os.getloadavg()[0]:.1f}"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        contamination, ratio, rows = with_launches(options, turns, folder)
        of_model, figures = feeding_model.measure(turns, folder / "model")
        mode, kept_bytes = feeding_model.limited_memory(folder / "limited")
    rows = [*of_model, *rows]
    print(f"\n{'':58}{'median (interval)':28}{'wanted':>9}")
    print(*rows, sep="\n")
    print(f"with too little memory for its batches a run is {mode} and keeps {kept_bytes} bytes")
    if not has_loadgen():
        print(f"MLPerf LoadGen: {INSTALL}")
    print(f"load {os.getloadavg()[0]:.1f} at the end, {time.monotonic() - began:.0f} s in all")
    contamination = max(contamination, feeding_model.contamination(figures))
    ratio = min(ratio, feeding_model.ratio_to_bound(figures))
    print(f"worst contamination {contamination:.1%}, worst ratio to the bound {ratio:.3f}")
    slower = "preparation slows the model by"
    claim(slower, contamination * 100, most=MOST_CONTAMINATION * 100, unit="%")
    peer = "the slower one alone"
    claim("of the slower one alone", ratio, least=LEAST_RATIO, unit="x", peer=peer)
    missed = sum(not row.is_met for row in rows) + (mode != "streamed") + (kept_bytes > 0)
    return missed + (contamination > MOST_CONTAMINATION) + (ratio < LEAST_RATIO)


def main() -> int:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="three turns")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--in-flight", type=int, default=LEAST_SLOTS + 1, help="batches")
    parser.add_argument("--device-ms", type=float, nargs="+", default=[0.0, 40.0, 100.0])
    parser.add_argument("--batches", type=int, default=12, help="in each run")
    default = processes_for(usable_cores(), 0, 64, 64)
    parser.add_argument("--processes", type=int, default=default)
    threads = workers_for(1, 64, usable_cores(), 1)
    parser.add_argument("--threads", type=int, default=threads, help="to compare with")
    parser.add_argument("--keep", action="store_true", help="write results/feeding.txt")
    options = parser.parse_args()
    with keeping("feeding", is_wanted=options.keep):
        return measure(options)


if __name__ == "__main__":
    sys.exit(main())
