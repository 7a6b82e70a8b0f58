"""The same model and photographs fed by PyTorch's DataLoader, and called by MLPerf's LoadGen.

All contestants call the module of one session's predictor, on one GPU, and take turns. The loader
has as many workers as the session has preparing processes; they make the calls of Pillow and NumPy
that the model's steps make, and a thread of the loader copies each batch into page-locked memory.
LoadGen issues its Offline scenario to bare calls, two in flight, of samples that lie in page-locked
memory before its clock starts, as its rules have it; they are answered in the order in which they
lie there. The bare loops take page-locked batches again and again.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from statistics import median
from typing import Any

import numpy as np
import yaml

from benchmarks.feeding_cases import Case, Effort
from benchmarks.feeding_gpu import AHEAD, STREAMED, bare_of, instant_of, measured, opened
from benchmarks.feeding_peers import has_loadgen, offline
from benchmarks.host_device import SLOTS, Bare, BareOnHost, call_ms, overlapped_ms
from benchmarks.preparation import MANIFESTS, Prepare, calls_alone, shipped_photographs
from schemas.manifest import ModelManifest
from schemas.plan import WorkOrder
from services.agent.predictors.options import usable_cores
from services.agent.worker.preparation.shares import processes_for
from services.agent.worker.session import Session
from services.agent.worker.session_opener import SessionOpener

ONE, TWO = "bare PyTorch, page-locked, one call at a time", "bare PyTorch, two in flight"
OURS_AHEAD, OURS_STREAMED = "mlscope, ahead", "mlscope, streamed"
OURS_PREPARED = "mlscope, preparation alone"
LOADER_ALONE, LOADER = "DataLoader alone", "DataLoader, feeding bare PyTorch"
LOADGEN = "MLPerf LoadGen, Offline, bare PyTorch"
ROUNDS = 3
BATCHES = 20
"""Of a round of LoadGen: that many batches of samples lie in memory."""
BURSTS = 3
"""Of a round of the loader: batches a worker; those of all workers arrive at about one time."""


def prepare_into(array: Any, bodies: Sequence[bytes]) -> Prepare:
    """Return what prepares a photograph into its place of an array, by the libraries' calls."""
    text = (MANIFESTS / "models/torchvision/torchvision-resnet50.yml").read_text()
    model = ModelManifest.model_validate(yaml.safe_load(text))
    return calls_alone(bodies, array, {step.operator: step for step in model.inputs[0].steps})


class Photographs:
    """What the loader reads: `count` samples, the `bodies` again and again."""

    def __init__(self, bodies: Sequence[bytes], count: int) -> None:
        """Keep the bodies; they go to the worker processes."""
        self._bodies, self._count = bodies, count

    def __len__(self) -> int:
        """Return the number of samples."""
        return self._count

    def __getitem__(self, number: int) -> Any:
        """Return a sample."""
        array, prepare = self._into
        prepare(number % len(self._bodies))
        return array[number % len(self._bodies)].copy()

    @cached_property
    def _into(self) -> tuple[Any, Prepare]:
        """Return an array of a worker's own and what prepares into it: made once in each."""
        array = np.empty((len(self._bodies), 3, 224, 224), np.float32)
        return array, prepare_into(array, self._bodies)


@dataclass(frozen=True, slots=True)
class Contest:
    """A session, and bare calls of its model."""

    session: Session
    order: WorkOrder
    opener: SessionOpener
    bare: Bare | BareOnHost
    #: takes the batches of others in place of its own
    fed: Bare | BareOnHost
    bodies: Sequence[bytes]
    workers: int
    is_on_gpu: bool

    def contestants(self) -> dict[str, Callable[[], float]]:
        """Return what measures samples a second, by contestant."""
        import torch

        size = self.order.session.batch_size
        queries = {plan.run: plan.queries for plan in self.order.session.runs}[AHEAD]
        contestants: dict[str, Callable[[], float]] = {
            ONE: lambda: size / call_ms(self.bare.from_pinned, queries) * 1e3,
            TWO: lambda: size / overlapped_ms(self.bare.begin, queries) * 1e3,
            OURS_AHEAD: partial(self._ours, self.session, AHEAD),
            OURS_STREAMED: partial(self._ours, self.session, STREAMED),
            OURS_PREPARED: partial(self._ours, instant_of(self.session), STREAMED),
            LOADER: partial(self._by_loader, is_fed=True),
            LOADER_ALONE: partial(self._by_loader, is_fed=False),
        }
        if has_loadgen():
            # The photographs again and again, page-locked on a GPU.
            prepared = np.empty((len(self.bodies), 3, 224, 224), np.float32)
            prepare = prepare_into(prepared, self.bodies)
            for number in range(len(self.bodies)):
                prepare(number)
            numbers = torch.arange(BATCHES * size) % len(self.bodies)
            library = torch.empty((len(numbers), 3, 224, 224), pin_memory=self.is_on_gpu)
            torch.index_select(torch.from_numpy(prepared), 0, numbers, out=library)
            contestants[LOADGEN] = partial(self._by_loadgen, library, size)
        return contestants

    def _ours(self, session: Session, run: str) -> float:
        """Return the rate of one block of a run."""
        plans = tuple(plan for plan in self.order.session.runs if plan.run == run)
        plan = self.order.session.model_copy(update={"runs": plans})
        order = self.order.model_copy(update={"session": plan, "runs": (run,)})
        blocks, _ = measured(session, order, lambda: (0.0, 0.0), self.opener)
        return median(blocks.samples_per_s[run])

    def _by_loader(self, *, is_fed: bool) -> float:
        """Return the loader's rate, from the end of its workers' first batches to the last."""
        import torch.utils.data

        size = self.order.session.batch_size
        loader: Any = torch.utils.data.DataLoader(
            Photographs(self.bodies, self.workers * (BURSTS + 1) * size),
            batch_size=size,
            num_workers=self.workers,
            pin_memory=self.is_on_gpu,
        )
        ends = []
        for batch in loader:
            if is_fed:
                self.fed.pinned[0] = batch
                self.fed.from_pinned(0)
            ends.append(time.perf_counter())
        return (len(ends) - self.workers) * size / (ends[-1] - ends[self.workers - 1])

    def _by_loadgen(self, library: Any, size: int) -> float:
        """Return the samples a second of LoadGen's Offline scenario."""

        def issue(samples: Sequence[Any], answered: Callable[[Sequence[Any]], None]) -> None:
            in_place = sorted(samples, key=lambda sample: sample.index)
            chunks = [in_place[first : first + size] for first in range(0, len(in_place), size)]
            waiting: deque[tuple[Callable[[], object], Sequence[Any]]] = deque()
            for number, chunk in enumerate(chunks):
                first = chunk[0].index
                self.fed.pinned[number % SLOTS] = library[first : first + size]
                waiting.append((self.fed.begin(number % SLOTS), chunk))
                while len(waiting) > 1 or (waiting and chunk is chunks[-1]):
                    wait, predicted = waiting.popleft()
                    wait()
                    answered(predicted)

        return offline(issue, lambda _: None, lambda _: None, len(library))


def measure(case: Case, effort: Effort) -> dict[str, Any]:
    """Return samples a second of all contestants, of each round; the first one warms."""
    few = Effort(effort.device, 1, effort.block_s, effort.streamed_samples)
    bodies = shipped_photographs()
    with opened(case, 0.02, few) as (session, order, opener):
        workers = processes_for(usable_cores(), 0, 64, 64)
        is_on_gpu = effort.device == "gpu"
        bare, fed = bare_of(case, session), bare_of(case, session)
        contest = Contest(session, order, opener, bare, fed, bodies, workers, is_on_gpu)
        contestants = contest.contestants()
        rounds: list[dict[str, float]] = []
        for turn in range((ROUNDS if is_on_gpu else 1) + 1):
            names = list(contestants)[:: -1 if turn % 2 else 1]
            rounds.append({name: contestants[name]() for name in names})
    return {
        "case": case.name,
        "workers": workers,
        "per_s": {name: [figures[name] for figures in rounds[1:]] for name in contestants},
        "has_loadgen": has_loadgen(),
    }
