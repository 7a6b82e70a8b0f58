"""Rates of a pipeline's stages alone, the bound on their rate together, and what limits it.

A rate alone is one measured alone, where the evaluation has it: a run of the same model with
samples prepared ahead has the model's, and before its clock one process prepares, with nothing
beside it. Else it is the run's own rate over the share of time in which the stage's servers worked.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mlscope.load.load import AHEAD
from services.analyzer.building.best import Leader, leader
from services.analyzer.building.margins import (
    UNKNOWN,
    Margin,
    margin_in,
    per_second,
    ratio,
    share_margin,
    total,
    trimmed_margin,
)
from services.analyzer.building.pipelines.stages import (
    PREPARE,
    STAGES,
    Servers,
    stage_spans,
    utilised_shares,
)
from services.analyzer.building.rates import samples_rate
from services.analyzer.building.table import trimmed_cells
from services.analyzer.frames.derived import once_a_run
from services.analyzer.frames.evaluation import PREDICT, ROOT_LEVEL, Frames, Run

THIS_RUN, BEFORE_CLOCK = "this run", "before the clock"
"""Where a rate alone is from: the run itself, or the preparation before the clock of another."""
_ROW = (
    "agent",
    "model",
    "model_version",
    "dataset",
    "framework",
    "framework_version",
    "batch_size",
    "level",
    "variant",
)
_CONDITIONS = ("device", "provider", "precision", "threads", "options", "host_memory", "inputs")
"""What a run with samples prepared ahead must have in common with the one it is compared with."""


@dataclass(frozen=True, slots=True)
class StageRate:
    """One stage of a run."""

    stage: str
    #: how many samples, or calls, it can have at a time
    servers: int
    #: the share of the run in which its servers worked
    utilisation: Margin
    #: samples a second alone, and where the figure is from
    alone: Margin
    alone_from: str
    #: the run's rate over the rate alone
    load: Margin


def stage_rates(frames: Frames, run: Run, together: Margin) -> list[StageRate]:
    """Return the stages of a `run` in their order; `together` is its rate in samples/s.

    Runs of the same `frames` may have measured a stage alone.
    """
    servers, present = Servers.of(run), set(stage_spans(run)["stage"])
    rates = []
    for stage in (stage for stage in STAGES if stage in present):
        preparing = servers.preparing if stage == PREPARE else 1
        own = share_margin(utilised_shares(run, stage, preparing))
        alone, source = _measured_alone(frames, run, stage, preparing)
        load = ratio(together, alone)
        if not source:
            is_slowed = servers.is_device and stage in (PREPARE, PREDICT)
            alone = UNKNOWN if is_slowed else ratio(together, own)
            load, source = (UNKNOWN, "") if is_slowed else (own, THIS_RUN)
        rates.append(StageRate(stage, preparing, own, alone, source, load))
    return rates


def bottleneck(run: Run, rates: Sequence[StageRate]) -> Leader | None:
    """Return what limits a `run` whose stages have these `rates`; None where a limit is unknown.

    Each row has `stages` that share servers, and the columns `load`: the run's rate over theirs.
    A device that prepares and predicts does so in turn; threads that do both have less time to
    prepare.
    """
    limits: dict[str, tuple[tuple[str, ...], Margin]] = {
        rate.stage: ((rate.stage,), rate.load) for rate in rates
    }
    shared = Servers.of(run).shared
    if shared and {PREPARE, PREDICT} <= limits.keys():
        load = limits[PREDICT][1]
        ends = (load.value, load.low, load.high)
        of_predict = Margin(*(None if end is None else end / shared for end in ends))
        both = total(limits[PREPARE][1], of_predict)
        limits[PREPARE] = (PREPARE,), both
        if shared == 1:
            limits[PREPARE] = (PREPARE, PREDICT), both
            del limits[PREDICT]
    if any(load.value is None for _, load in limits.values()):
        return None
    rows = [{"stages": stages, **load.cells("load")} for stages, load in limits.values()]
    return leader(rows, "load")


def is_slowest(slowest: Leader, stage: str) -> bool | None:
    """Return whether a stage is among the `slowest` by `bottleneck`; None where intervals doubt."""
    if not any(stage in row["stages"] for row in (slowest.row, *slowest.rivals)):
        return False
    return None if slowest.rivals else True


def slowdown(frames: Frames, run: Run) -> tuple[Margin, str]:
    """Return predict's time in a streamed `run` divided by its time alone, and the latter's run.

    UNKNOWN and '' if no run measured it alone, or if calls overlap in either run: then predict's
    time includes waiting for another call.
    """
    if run.row.calls_in_flight == 1:
        for ahead_run in _ahead_of(frames, run):
            return ratio(_predict_margin(run), _predict_margin(ahead_run)), ahead_run.row.run
    return UNKNOWN, ""


def _measured_alone(frames: Frames, run: Run, stage: str, servers: int) -> tuple[Margin, str]:
    """Return a stage's rate where another run measured it alone, and where; else UNKNOWN and ''.

    One process prepares before the clock: the rate of several at a time does not follow.
    """
    for ahead_run in _ahead_of(frames, run):
        if stage == PREDICT and (rate := samples_rate(ahead_run)) is not None:
            return Margin(rate.rate_hz, rate.interval.low, rate.interval.high), ahead_run.row.run
        if stage == PREPARE and servers == 1:
            is_batch = (ahead_run.spans["block"] < 0) & (ahead_run.spans["level"] == ROOT_LEVEL)
            batches = ahead_run.spans.filter(is_batch & (ahead_run.spans["name"] == PREPARE))
            if batches.height:
                time = trimmed_margin(batches["duration_ns"].to_numpy())
                return per_second(time, run.row.batch_size), f"{ahead_run.row.run}, {BEFORE_CLOCK}"
    return UNKNOWN, ""


def _ahead_of(frames: Frames, run: Run) -> Iterator[Run]:
    """Yield the runs that have the model of a `run` alone, those of its scenario first.

    Their calls follow one another, as many at a time as in the run.
    """

    def key(compared: Run) -> tuple[object, ...]:
        conditions = (compared.row.conditions.get(name) for name in _CONDITIONS)
        row = (getattr(compared.row, name) for name in _ROW)
        return *row, *conditions, compared.row.calls_in_flight

    alike = [
        ahead_run
        for ahead_run in frames.measured
        if ahead_run.row.prepared == AHEAD
        and ahead_run.answered.height
        and not ahead_run.is_open_loop
        and key(ahead_run) == key(run)
    ]
    yield from sorted(alike, key=lambda ahead_run: ahead_run.row.scenario != run.row.scenario)


@once_a_run
def _predict_margin(run: Run) -> Margin:
    calls = stage_spans(run).filter(stage=PREDICT)
    times = (calls["end_ns"] - calls["start_ns"]).to_numpy()
    blocks = calls["block"].fill_null(0).to_numpy()
    return margin_in(trimmed_cells(PREDICT, times, blocks), PREDICT)
