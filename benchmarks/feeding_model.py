"""A real model fed by mlscope, by bare code and by others, in turns: the numbers of feeding.

EfficientNet-Lite0 on ONNX Runtime, one thread; photographs prepared ahead, or streamed by as many
processes as an agent takes. Each round has all contestants, every other round the other way round.
At further batch sizes, blocks of runs ahead alternate with bare loops.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import yaml

from benchmarks.feeding_gpu import Instant, measured
from benchmarks.feeding_peers import (
    Predict,
    bare_model,
    by_data_loader,
    by_loadgen,
    has_loadgen,
    mlscope_by_loadgen,
)
from benchmarks.preparation import (
    ALONE,
    EARLIER,
    OURS,
    WANTED_OVER_ALONE,
    WANTED_OVER_EARLIER,
    contestants_of,
    in_turns,
    shipped_photographs,
)
from mlscope.statistics import percentile_interval
from schemas.level import Level
from schemas.manifest import DatasetManifest, ModelManifest
from schemas.plan import RunPlan, SessionPlan, Subject, WorkOrder
from schemas.request import Blocks
from schemas.run import RunCompleted
from services.agent.link.allowances import DEFAULT_ALLOWANCES
from services.agent.link.messages import PerformOrder
from services.agent.machine.roofline.ceilings import NO_ROOF
from services.agent.worker.session_opener import SessionOpener

MANIFESTS = Path(__file__).parents[1] / "manifests"
BATCH, IN_FLIGHT = 8, 4
BATCHES = {1: 96, BATCH: 24, 32: 8}
"""Of a run, by batch size: a run takes a second or two."""
AHEAD, STREAMED, ONLINE = "ahead", "streamed", "online"
BARE, LOADER, LOADGEN, ALONE_PREPARED = "bare", "loader", "loadgen", "preparation"
OURS_BY_LOADGEN = "mlscope by loadgen"
Figures = Mapping[str, Sequence[tuple[float, float]]]
"""Samples a second, and ms of a predict call, of each round of each contestant."""
_LITTLE_MEMORY = 8 << 20
"""For less than two batches of eight with their outputs."""


@dataclass(frozen=True)
class Claim:
    """A row: what is wanted of a figure, and its values over the rounds."""

    text: str
    values: Sequence[float]
    wanted: float
    is_most: bool = False

    @property
    def is_met(self) -> bool:
        """Whether the median is as wanted."""
        middle = median(self.values)
        return middle <= self.wanted if self.is_most else middle >= self.wanted

    def __str__(self) -> str:
        """Return the row."""
        interval = percentile_interval(self.values, 0.5)
        low = min(self.values) if interval.low is None else interval.low
        high = max(self.values) if interval.high is None else interval.high
        sign = "<=" if self.is_most else ">="
        verdict = "yes" if self.is_met else "no"
        figure = f"{median(self.values):8.3f} ({low:.3f} … {high:.3f})"
        return f"{self.text:58}{figure:28} {sign} {self.wanted:<6g}{verdict:>4}"


def subject_of(rounds: int) -> Subject:
    """Return the model with its photographs, whose runs have a block for each of the `rounds`."""
    model = yaml.safe_load((MANIFESTS / "models/efficientnet_lite0.yml").read_text())
    dataset = yaml.safe_load((MANIFESTS / "datasets/photos.yml").read_text())
    return Subject(
        model=ModelManifest.model_validate(model),
        dataset=DatasetManifest.model_validate(dataset),
        framework="onnxruntime",
        options={"threads": 1},
        outputs=0,
        blocks=Blocks(least=rounds, most=rounds),
    )


def order_of(*names: str, batch_size: int = BATCH, rounds: int = 1) -> WorkOrder:
    """Return an order of runs at a `batch_size`, in as many blocks as `rounds` says."""
    batches = BATCHES[batch_size]
    plans: dict[str, tuple[str, dict[str, Any]]] = {
        ONLINE: ("online", {"samples": "ahead"}),
        AHEAD: ("batched", {"samples": "ahead"}),
        STREAMED: ("batched", {"samples": "streamed", "concurrency": IN_FLIGHT}),
    }
    runs = tuple(
        RunPlan(
            run=name,
            group=0,
            scenario=plans[name][0],
            parameters={"queries": batches, **plans[name][1]},
            level=Level.MODEL,
            queries=batches,
            pacing="local",
        )
        for name in names
    )
    session = SessionPlan(session="s", agent="here", batch_size=batch_size, runs=runs)
    return WorkOrder(
        evaluation="feeding",
        agent="here",
        attempt=1,
        subject=subject_of(rounds),
        session=session,
        runs=names,
    )


class Contest:
    """The model opened by us and by bare code, on the same batches."""

    def __init__(self, folder: Path) -> None:
        """Open both."""
        message = PerformOrder(
            order_of(ONLINE, AHEAD, STREAMED), MANIFESTS, {}, DEFAULT_ALLOWANCES, NO_ROOF
        )
        self.opener = SessionOpener(message, folder)
        self.session = self.opener.open()
        self.bodies = shipped_photographs()
        self._bare = bare_model()
        arrays = next(iter(self.session.slots[0].inputs.values()))
        self._batch = np.array(arrays)
        outputs = self.session.predictor.predict(self.session.slots[0].inputs)
        answers = {name: array.copy() for name, array in outputs.items()}
        self._instant = replace(self.session, predictor=Instant(self.session.predictor, answers))

    def turn(self, contestant: str) -> tuple[float, float]:
        """Return samples a second, and the median ms of a predict call, of a contestant."""
        if contestant == BARE:
            return bare_calls(self._bare, self._batch)
        if contestant == LOADER:
            return by_data_loader(self._bare, self.bodies, BATCH, BATCHES[BATCH])
        if contestant == LOADGEN:
            return by_loadgen(self._bare, self.bodies, BATCH, BATCHES[BATCH])
        if contestant == OURS_BY_LOADGEN:
            return mlscope_by_loadgen(self.session, order_of(AHEAD), self.opener)
        is_alone = contestant == ALONE_PREPARED
        run = STREAMED if is_alone else contestant
        session = self._instant if is_alone else self.session
        blocks, outcomes = measured(session, order_of(run), lambda: (0.0, 0.0), self.opener)
        assert isinstance(outcomes[0], RunCompleted), outcomes[0]
        return blocks.samples_per_s[run][0], blocks.predict_ms[run][0]


def bare_calls(predict: Predict, batch: Any) -> tuple[float, float]:
    """Return samples a second, and the median ms of a call, of a loop over one batch."""
    stamps = [time.perf_counter()]
    for _ in range(BATCHES[len(batch)]):
        predict(batch)
        stamps.append(time.perf_counter())
    rate = (len(stamps) - 2) * len(batch) / (stamps[-1] - stamps[1])
    return rate, float(np.median(np.diff(stamps))) * 1e3


def ahead_beside_bare(batch_size: int, rounds: int, folder: Path) -> list[Claim]:
    """Print the predict times of runs ahead at a `batch_size`; return their ratios to bare calls'.

    Each block lies between two loops of bare calls; the first of the blocks warms.
    """
    order = order_of(ONLINE, AHEAD, batch_size=batch_size, rounds=rounds + 1)
    opener = SessionOpener(PerformOrder(order, MANIFESTS, {}, DEFAULT_ALLOWANCES, NO_ROOF), folder)
    session, bare = opener.open(), bare_model()
    batch = np.array(next(iter(session.slots[0].inputs.values())))
    try:
        blocks, outcomes = measured(session, order, lambda: bare_calls(bare, batch), opener)
    finally:
        session.close()
    assert all(isinstance(outcome, RunCompleted) for outcome in outcomes), outcomes
    rows = []
    for run, text in ((ONLINE, "one in flight"), (AHEAD, "batched")):
        pairs = list(zip(blocks.predict_ms[run], blocks.beside(run, 1), strict=True))[1:]
        ours_ms, bare_ms = (median(times) for times in zip(*pairs, strict=True))
        print(f"batch {batch_size:2}, {text:14} predict {ours_ms:8.2f} ms, bare {bare_ms:8.2f} ms")
        ratios = [ours / own_bare for ours, own_bare in pairs]
        rows.append(
            Claim(f"predict ahead, {text}, batch {batch_size}, over bare", ratios, 1.02, True)
        )
    return rows


def limited_memory(folder: Path) -> tuple[str, int]:
    """Return how a run is fed, and the bytes of its prepared batches, with `_LITTLE_MEMORY`."""
    allowed = replace(DEFAULT_ALLOWANCES, ahead_bytes=_LITTLE_MEMORY)
    order = order_of(AHEAD)
    opener = SessionOpener(PerformOrder(order, MANIFESTS, {}, allowed, NO_ROOF), folder)
    session = opener.open()
    try:
        _, outcomes = measured(session, order, lambda: (0.0, 0.0), opener)
    finally:
        session.close()
    assert isinstance(outcomes[0], RunCompleted), outcomes[0]
    return outcomes[0].conditions.samples, outcomes[0].conditions.prepared_bytes


def prepared_over(rounds: int, *peers: str) -> dict[str, list[float]]:
    """Return our rate of preparation on one core over that of each of `peers`, of each round."""
    bodies = shipped_photographs()
    contestants = contestants_of(bodies)[0]
    passes = {
        name: lambda prepare=contestants[name]: [prepare(n) for n in range(len(bodies))]
        for name in (OURS, *peers)
    }
    seconds = in_turns(passes, rounds)
    return {
        name: [peer_s / ours_s for peer_s, ours_s in zip(seconds[name], seconds[OURS], strict=True)]
        for name in peers
    }


def per_core(rounds: int) -> list[float]:
    """Return our rate over that of the libraries' calls alone, on one core, of each round."""
    return prepared_over(rounds, ALONE)[ALONE]


def _ratios(figures: Figures, above: str, below: str, place: int) -> list[float]:
    """Return the ratio of each round: of rates, place 0, or of the times of a call, place 1."""
    pairs = zip(figures[above], figures[below], strict=True)
    return [first[place] / second[place] for first, second in pairs]


def _over_bound(figures: Figures) -> list[float]:
    """Return the streamed rate over the lower of preparation's and the model's, of each round."""
    rounds = zip(figures[STREAMED], figures[ALONE_PREPARED], figures[AHEAD], strict=True)
    return [streamed[0] / min(alone[0], model[0]) for streamed, alone, model in rounds]


def contamination(figures: Figures) -> float:
    """Return how much longer a call takes while samples are streamed, as a share."""
    return median(_ratios(figures, STREAMED, AHEAD, 1)) - 1


def ratio_to_bound(figures: Figures) -> float:
    """Return the streamed rate over the lower of preparation's and the model's."""
    return median(_over_bound(figures))


def claims(figures: Figures, rounds: int) -> list[Claim]:
    """Return what is claimed of the figures of all contestants, a pair a round."""
    ratios, prepared = partial(_ratios, figures), prepared_over(rounds, ALONE, EARLIER)
    rows = [
        Claim(
            "predict ahead, one in flight, batch 8, over bare", ratios(ONLINE, BARE, 1), 1.02, True
        ),
        Claim("predict ahead, batched, batch 8, over bare", ratios(AHEAD, BARE, 1), 1.02, True),
        Claim("predict while streamed over ahead", ratios(STREAMED, AHEAD, 1), 1.02, True),
        Claim("throughput ahead over the bare loop's", ratios(AHEAD, BARE, 0), 0.98),
        Claim("throughput streamed over min(preparation, model)", _over_bound(figures), 0.95),
        Claim(
            "preparation per core over the libraries' calls alone",
            prepared[ALONE],
            WANTED_OVER_ALONE,
        ),
        Claim(
            "preparation, bit for bit, over release 0.1's steps",
            prepared[EARLIER],
            WANTED_OVER_EARLIER,
        ),
        Claim("throughput streamed over PyTorch DataLoader's", ratios(STREAMED, LOADER, 0), 1.0),
    ]
    if LOADGEN in figures:
        texts = {
            AHEAD: "throughput ahead over MLPerf LoadGen's, bare calls",
            OURS_BY_LOADGEN: "mlscope under LoadGen over bare calls under it",
        }
        rows += [Claim(text, ratios(own, LOADGEN, 0), 0.98) for own, text in texts.items()]
    return rows


def printed(figures: Figures) -> None:
    """Print the rate and the predict time of every contestant."""
    texts = {
        BARE: "bare loop, one batch again and again",
        ONLINE: "mlscope ahead, one in flight",
        AHEAD: "mlscope ahead, batched",
        STREAMED: "mlscope streamed",
        ALONE_PREPARED: "mlscope preparation alone",
        LOADER: "PyTorch DataLoader, 1 worker, bare loop",
        LOADGEN: "MLPerf LoadGen Offline, bare calls",
        OURS_BY_LOADGEN: "MLPerf LoadGen Offline, mlscope ahead",
    }
    print(f"{'':42}{'samples/s':>11}{'predict, ms':>13}")
    for name, turns in figures.items():
        rate, predict_ms = (median(turn[place] for turn in turns) for place in (0, 1))
        spent = "" if name == ALONE_PREPARED else f"{predict_ms:.2f}"
        print(f"{texts[name]:42}{rate:11.1f}{spent:>13}")


def measure(rounds: int, folder: Path) -> tuple[list[Claim], Figures]:
    """Measure all contestants in turns and print; return the claims and the figures."""
    contest = Contest(folder)
    names = [BARE, ONLINE, AHEAD, STREAMED, ALONE_PREPARED, LOADER]
    names += [LOADGEN, OURS_BY_LOADGEN] if has_loadgen() else []
    figures: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    try:
        for number in range(rounds + 1):
            for name in names[:: -1 if number % 2 else 1]:
                figures[name].append(contest.turn(name))
    finally:
        contest.session.close()
    measured_rounds = {name: turns[1:] for name, turns in figures.items()}  # the first one warms
    print(f"\nEfficientNet-Lite0, one thread, batch {BATCH}, medians of {rounds} rounds")
    printed(measured_rounds)
    print("PyTorch DataLoader, pinned: not measured, it needs a GPU (python -m benchmarks.fed_gpu)")
    rows = claims(measured_rounds, rounds)
    for batch_size in (1, 32):
        rows += ahead_beside_bare(batch_size, rounds, folder / str(batch_size))
    return rows, measured_rounds
