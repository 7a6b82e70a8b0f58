"""What a survey does, step by step, and what it keeps of each."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from benchmarks.survey import counts, full, measuring
from benchmarks.survey.bounds import Bound
from benchmarks.survey.measuring import Outcome
from benchmarks.survey.subjects import DEEP, Net
from schemas.level import Level
from schemas.plan import OfflinePlan, Subject
from schemas.run import RunFailed
from services.agent.host.announcing import announcement
from services.agent.host.offline import OfflineResources, run_plan

GPU_PHASES = ("sweep", "throughput", "system", "counts", "deep", "energy", "residual")
PHASES: Mapping[str, tuple[str, ...]] = {
    "gpu": GPU_PHASES,
    "cpu": ("sweep", "throughput", "system"),
}
SWEEP_QUERIES, ONLINE_QUERIES, DEEP_QUERIES = 8, 40, 4
MOST_AGAIN = 2
"""How often batch sizes that were disturbed are measured again."""
RATE_S, RATE_QUERIES = 1.5, (8, 200)
"""How long throughput is measured at a batch size, and in how many queries."""
RESIDUAL_S, RESIDUAL_BLOCKS, BLOCK_COST_S = 12.0, (18, 600), 0.02
"""How long and in how many blocks a level the residual is looked for; what two blocks cost."""
ENERGY_S = 2.0
"""How long energy is measured, in one block: NVML's counter changes 11 times a second."""
NCU_S = 400.0
"""The most that a replay for counters may take."""
COUNTED = {"resnet50": 32, "fasterrcnn-resnet50-fpn": 1}
"""Batch sizes of the deep models' counts by kinds; 16 of others."""
TOGETHER = 8
"""Models that one ncu counts."""

Results = Mapping[str, Any]
Measure = Callable[[OfflinePlan, Path, Bound], list[Outcome]]


class NothingMeasured(RuntimeError):
    """No run of a model ended well: why, by run."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        self.reasons = reasons
        super().__init__("; ".join(sorted(set(reasons.values()))) or "nothing was planned")


class Subjected(Protocol):
    """A model to measure."""

    @property
    def name(self) -> str:
        """What files and rows are named by."""
        ...

    @property
    def batch_sizes(self) -> Sequence[int]:
        """What is swept."""
        ...

    def subject(self, device: str) -> Subject:
        """Return what is measured, on a device."""
        ...


@dataclass(slots=True)
class State:
    """What is done, kept in a file after each step."""

    path: Path
    finished: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "State":
        """Return what a file holds; nothing where there is none."""
        return cls(path, json.loads(path.read_text()) if path.exists() else {})

    def note(self, step: str, results: Results) -> None:
        """Keep what a step found."""
        self.finished[step] = dict(results)
        self.path.write_text(json.dumps(self.finished, indent=1, sort_keys=True))

    def medians(self, name: str) -> dict[int, float]:
        """Return a model's milliseconds a batch size. Raises KeyError before its sweep."""
        medians = self.finished[f"sweep {name}"]["medians_ms"]
        return {int(size): float(spent) for size, spent in medians.items()}

    def optimal(self, name: str) -> int:
        """Return a model's optimal batch. Raises KeyError before its sweep."""
        return int(self.finished[f"sweep {name}"]["optimal"])


@dataclass(frozen=True, slots=True)
class Survey:
    """Where, of what and how it is measured."""

    out: Path
    state: State
    device: str
    models: Sequence[Subjected]
    measure: Measure

    def path(self, step: str) -> Path:
        """Return where a step's bundle lies."""
        return self.out / f"{step.replace(' ', '-').replace('/', '-')}.bundle"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do once."""

    name: str
    #: raises TimeIsUp where the bound comes first
    act: Callable[[Survey, Bound], Results]


def steps(survey: Survey, phases: Sequence[str]) -> Iterator[Step]:
    """Yield the steps of phases, in order."""
    single = {"sweep": _sweep, "throughput": _throughput, "system": _system}
    for phase in phases:
        if phase in single:
            yield from (Step(f"{phase} {m.name}", single[phase](m)) for m in survey.models)
        elif phase == "counts":
            yield from _counting(survey)
        else:
            act = {"deep": _deep, "energy": _energy, "residual": _residual}[phase]
            for net in DEEP:
                yield from (Step(f"{phase} {net.name} {s}", act(net, s)) for s in net.batch_sizes)


def _counting(survey: Survey) -> Iterator[Step]:
    """Yield the steps that count: the models looked at deeply at first, which is soon over."""
    deep = [(net.name, COUNTED.get(net.name, 16)) for net in DEEP]
    own = [(model.name, 0) for model in survey.models if isinstance(model, Net)]
    parts = [deep, *(own[first : first + TOGETHER] for first in range(0, len(own), TOGETHER))]
    for number, models in enumerate(parts):
        yield Step(f"counts {number}", _counts(models, number))


def _sweep(model: Subjected) -> Callable[[Survey, Bound], Results]:
    """Latency of single samples, and medians over batch sizes."""

    def act(survey: Survey, bound: Bound) -> Results:
        subject = model.subject(survey.device)
        plan = measuring.plan_of(subject, model.batch_sizes, SWEEP_QUERIES, [Level.MODEL])
        plan = measuring.online_first(plan, ONLINE_QUERIES)
        outcomes = survey.measure(plan, survey.path(f"sweep {model.name}"), bound)
        medians = measuring.medians_ms(outcomes)
        of_size = {
            size: medians[f"b{size}-online-model"]
            for size in model.batch_sizes
            if f"b{size}-online-model" in medians
        }
        if not of_size:
            raise NothingMeasured(failures(outcomes))
        if measuring.SINGLE in medians:
            # Of five times as many queries as the sweep's own.
            of_size[1] = medians[measuring.SINGLE]
        repeated = []
        for number in range(MOST_AGAIN):
            if not (again := measuring.disturbed_sizes(of_size)):
                break
            plan = measuring.plan_of(subject, again, SWEEP_QUERIES, [Level.MODEL])
            path = survey.path(f"sweep {model.name} again {number}")
            repeats = measuring.medians_ms(survey.measure(plan, path, bound))
            for size in again:
                # What disturbs a size only makes it slower.
                repeat = repeats.get(f"b{size}-online-model", of_size[size])
                of_size[size] = min(of_size[size], repeat)
            repeated += again
        return {
            "medians_ms": of_size,
            "single_ms": medians.get(measuring.SINGLE),
            "optimal": measuring.optimal_batch(of_size),
            "repeated": repeated,
            "failed": failures(outcomes),
        }

    return act


def _throughput(model: Subjected) -> Callable[[Survey, Bound], Results]:
    """Measure samples a second in scenario batched, at the optimal and the fastest batch."""

    def act(survey: Survey, bound: Bound) -> Results:
        medians = survey.state.medians(model.name)
        fastest = max(medians, key=lambda size: size / medians[size])
        subject, outcomes = model.subject(survey.device), []
        for size in sorted({survey.state.optimal(model.name), fastest}):
            shortest, longest = RATE_QUERIES
            queries = round(min(max(RATE_S * 1e3 / medians[size], shortest), longest))
            plan = measuring.plan_of(subject, [size], queries, [Level.MODEL], scenario="batched")
            outcomes += survey.measure(plan, survey.path(f"throughput {model.name} {size}"), bound)
        return {"medians_ms": measuring.medians_ms(outcomes), "failed": failures(outcomes)}

    return act


def _system(model: Subjected) -> Callable[[Survey, Bound], Results]:
    """Layers, and on a GPU kernels, at the optimal batch."""

    def act(survey: Survey, bound: Bound) -> Results:
        size = survey.state.optimal(model.name)
        levels = measuring.LEVELS if survey.device == "gpu" else measuring.LEVELS[:2]
        plan = measuring.plan_of(model.subject(survey.device), [size], DEEP_QUERIES, levels, 2)
        outcomes = survey.measure(plan, survey.path(f"system {model.name}"), bound)
        return {
            "batch": size,
            "medians_ms": measuring.medians_ms(outcomes),
            **_results_of(outcomes),
        }

    return act


def _counts(models: Sequence[tuple[str, int]], number: int) -> Callable[[Survey, Bound], Results]:
    """Counters of whole models (0: at its optimal batch); each counted one is noted of its own."""

    def act(survey: Survey, bound: Bound) -> Results:
        sized = [(name, size or survey.state.optimal(name)) for name, size in models]
        uncounted = [
            model_and_size
            for model_and_size in sized
            if _counted(*model_and_size) not in survey.state.finished
        ]
        printed = counts.run(survey.out, number, uncounted, bound.left_s)
        for name, (size, counters) in counts.read(survey.out, number).items():
            survey.state.note(_counted(name, size), asdict(counters))
        missing = [
            name for name, size in uncounted if _counted(name, size) not in survey.state.finished
        ]
        if missing:
            raise NothingMeasured(
                {name: f"{name} was not counted: {printed[-600:]}" for name in missing}
            )
        return {"models": sized}

    return act


def _counted(name: str, size: int) -> str:
    return f"counted {name} {size}"


def _deep(net: Net, size: int) -> Callable[[Survey, Bound], Results]:
    """One evaluation at level full, by workers of their own, ncu under one of them."""

    def act(survey: Survey, bound: Bound) -> Results:
        machine = announcement(measuring.AGENT, "one", allowances=measuring.ALLOWED)
        plan = full.plan_of(net, size, machine, min(NCU_S, bound.left_s))
        path = survey.path(f"deep {net.name} {size}")
        means = OfflineResources(
            allowances=measuring.ALLOWED, roofs_folder=survey.out / measuring.ROOFS
        )
        outcomes = run_plan(bound.on(plan), path, means, on_fact=bound.check)
        bound.judge(outcomes)
        if failed := failures(outcomes):
            raise NothingMeasured(failed)
        return {"medians_ms": measuring.medians_ms(outcomes), **_results_of(outcomes)}

    return act


def _energy(net: Net, size: int) -> Callable[[Survey, Bound], Results]:
    """Energy of untraced queries, by the counter read around one block of them."""

    def act(survey: Survey, bound: Bound) -> Results:
        queries = max(8, round(ENERGY_S / _query_s(survey, net, size)))
        plan = measuring.plan_of(net.subject(survey.device), [size], queries, [Level.MODEL])
        outcomes = survey.measure(plan, survey.path(f"energy {net.name} {size}"), bound)
        return {"medians_ms": measuring.medians_ms(outcomes), **_results_of(outcomes)}

    return act


def _query_s(survey: Survey, net: Net, size: int) -> float:
    """Return what a query takes, as the deep look found."""
    deep = survey.state.finished.get(f"deep {net.name} {size}", {}).get("medians_ms", {})
    return float(deep.get(f"b{size}-online-model", 20.0)) * 1e-3


def _residual(net: Net, size: int) -> Callable[[Survey, Bound], Results]:
    """Many short blocks of levels model and framework in turn, as fast as that goes."""

    def act(survey: Survey, bound: Bound) -> Results:
        spent_s = _query_s(survey, net, size)
        queries = 6 if spent_s < 0.01 else 5
        least_blocks, most_blocks = RESIDUAL_BLOCKS
        # Each block of level framework warms its capture with one more.
        blocks = RESIDUAL_S / ((2 * queries + 1) * spent_s + BLOCK_COST_S)
        blocks = 3 * round(min(max(blocks, least_blocks), most_blocks) / 3)
        subject = net.subject(survey.device).model_copy(update={"collectors": {"energy": False}})
        plan = measuring.plan_of(subject, [size], queries, measuring.LEVELS[:2], blocks)
        outcomes = survey.measure(plan, survey.path(f"residual {net.name} {size}"), bound)
        return {
            "blocks": blocks,
            "medians_ms": measuring.medians_ms(outcomes),
            **_results_of(outcomes),
        }

    return act


def failures(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Return why runs failed, by name."""
    return {
        outcome.run: f"{outcome.error}: {outcome.message}"
        for outcome in outcomes
        if isinstance(outcome, RunFailed)
    }


def _results_of(outcomes: Sequence[Outcome]) -> Results:
    completed = [outcome for outcome in outcomes if not isinstance(outcome, RunFailed)]
    return {
        "failed": failures(outcomes),
        "levels": {
            outcome.run: f"{outcome.level.name} {outcome.level_note}" for outcome in completed
        },
        "caveats": sorted({note for outcome in completed for note in outcome.caveats}),
        "spans": {outcome.run: outcome.tally.spans for outcome in completed},
    }
