"""A model on a GPU, fed as an agent feeds it, beside bare PyTorch on the same arrays.

Each case is a session as an agent opens it, on photos that are decoded and resized (BERT: on tokens
made up). Its runs take turns in blocks: `online`, `batched` ahead, `batched` streamed. Before the
first and after every block bare PyTorch is timed on the same arrays: from page-locked memory, one
call at a time, and two in flight. Then `online` and `batched` streamed take turns with a predictor
that makes one call at a time, so that predict is the same thing in both; each of them once with the
thread that predicts kept on the session's core, and once (`free`) wherever the kernel puts it.
Preparation alone is a streamed run whose model answers at once.
"""

import timeit
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.feeding_cases import FULL, Case, Effort
from benchmarks.host_device import BareCalls, bare_calls, call_ms, overlapped_ms
from benchmarks.survey.measuring import AGENT, ALLOWED
from mlscope.tracing.batches import ANSWERED, columns_of
from schemas.batch import QueriesAnswered, TraceCaptured
from schemas.level import Level
from schemas.plan import RunPlan, SessionPlan, Subject, WorkOrder
from schemas.run import RunCompleted
from services.agent.host.offline import SHIPPED_MANIFESTS
from services.agent.link.batches import unpack_batch
from services.agent.link.messages import PerformOrder
from services.agent.machine.cores import ANYWHERE, kept_on
from services.agent.machine.noise import usable_core_numbers
from services.agent.machine.roofline.ceilings import NO_ROOF
from services.agent.predictors import Opened, Predictor, Tensors
from services.agent.worker.control import Control
from services.agent.worker.group import Group
from services.agent.worker.measurement import Measurement
from services.agent.worker.session import Session
from services.agent.worker.session_opener import SessionOpener

BARE_CALLS = 12
LEAST_IN_FLIGHT, SAMPLES_IN_FLIGHT = 6, 32
"""Streamed batches under way: some for each preparing process, two predicted, one finished."""
ONLINE, AHEAD, STREAMED = "online", "ahead", "streamed"
FREE = "-free"
"""Ends the name of a run whose predicting thread is kept on no core."""


class OneByOne:
    """A model whose calls do not overlap, as it can't begin one."""

    def __init__(self, inner: Predictor) -> None:
        self.opened, self.predict, self.close = inner.opened, inner.predict, inner.close


class Instant:
    """A model that answers at once: what is left of a streamed run is its preparation."""

    def __init__(self, inner: Predictor, outputs: Tensors) -> None:
        self._inner, self._outputs = inner, outputs

    @property
    def opened(self) -> Opened:
        """Return what the model in its place was opened as."""
        return self._inner.opened

    def predict(self, inputs: Tensors) -> Tensors:  # noqa: ARG002
        """Return the same outputs for any batch."""
        return self._outputs

    def close(self) -> None:
        """Close nothing."""


@dataclass
class Blockwise:
    """Times and rates of each run by block, and bare PyTorch's before and after each block."""

    predict_ms: dict[str, list[float]] = field(default_factory=dict)
    samples_per_s: dict[str, list[float]] = field(default_factory=dict)
    bare: list[tuple[float, float]] = field(default_factory=list)
    order: list[str] = field(default_factory=list)

    def beside(self, run: str, place: int) -> list[float]:
        """Return bare's times (ms) around each block of a run: 0 one call, 1 two in flight."""
        return [
            (self.bare[number][place] + self.bare[number + 1][place]) / 2
            for number, name in enumerate(self.order)
            if name == run
        ]


def measured(
    session: Session,
    order: WorkOrder,
    time_bare: Callable[[], tuple[float, float]],
    opener: SessionOpener,
) -> tuple[Blockwise, list[Any]]:
    """Do an order's runs in turn; return their blocks and how they ended."""
    blocks, bodies = Blockwise(), list[bytes]()
    blocks.bare.append(time_bare())

    class GroupBesideBare(Group):
        def _perform_block(
            self, run: Measurement, work: Callable[[Measurement], None], block: int
        ) -> None:
            if run.plan.run.endswith(FREE):
                run.stages.predicting_cores = ANYWHERE
            super()._perform_block(run, work, block)
            blocks.order.append(run.plan.run)
            blocks.bare.append(time_bare())

    def take(body: bytes) -> bool:
        bodies.append(body)
        return True

    group = GroupBesideBare(session, order, Control(), take, lambda _: None, opener)
    outcomes = list(group.perform())
    for plan in order.session.runs:
        predicts, answered = rows_of(plan.run, bodies)
        count = len(session.supply.samples) and order.session.batch_size
        numbers = sorted(set(answered["block"].tolist()))
        blocks.predict_ms[plan.run] = [
            float(np.median(predicts["duration_ns"][predicts["block"] == number])) / 1e6
            for number in numbers
        ]
        blocks.samples_per_s[plan.run] = [
            rate_of(answered, answered["block"] == number, count) for number in numbers
        ]
    return blocks, outcomes


def rows_of(run: str, bodies: Sequence[bytes]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the columns of a run's timed predict spans, and of its answered queries."""
    names: dict[int, str] = {}
    spans, queries = [], []
    for body in bodies:
        batch = unpack_batch(body)
        if batch.run != run:
            continue
        if isinstance(batch, TraceCaptured):
            names |= dict(zip(batch.name_ids, batch.name_texts, strict=True))
            spans.append(columns_of(batch))
        elif isinstance(batch, QueriesAnswered):
            queries.append(columns_of(batch))
    columns = {
        key: np.concatenate([batch_columns[key] for batch_columns in spans]) for key in spans[0]
    }
    is_predict = np.array([names[name] == "predict" for name in columns["name"].tolist()])
    is_timed = is_predict & (columns["block"] >= 0)
    answered = {
        key: np.concatenate([batch_columns[key] for batch_columns in queries]) for key in queries[0]
    }
    is_answered = answered["status"] == ANSWERED
    return (
        {key: values[is_timed] for key, values in columns.items()},
        {key: values[is_answered] for key, values in answered.items()},
    )


def rate_of(answered: Mapping[str, Any], is_of_block: Any, batch_size: int) -> float:
    """Return samples a second, from the first answer of a block to its last: without the fill."""
    ended = answered["ended_ns"][is_of_block]
    return float((len(ended) - 1) * batch_size / (ended.max() - ended.min()) * 1e9)


def order_of(case: Case, subject: Subject, call_s: float, effort: Effort = FULL) -> WorkOrder:
    """Return the order of a case whose predict takes about `call_s`."""
    queries = max(6, min(200, round(effort.block_s / call_s)))

    def run(name: str, scenario: str, samples: str, count: int, **further: int) -> RunPlan:
        parameters = {"queries": count, "samples": samples, **further}
        return RunPlan(
            run=name,
            group=0,
            scenario=scenario,
            parameters=parameters,
            level=Level.MODEL,
            queries=count,
            pacing="local",
        )

    runs = [run(ONLINE, "online", "ahead", queries), run(AHEAD, "batched", "ahead", queries)]
    if case.model != "bert-base":
        in_flight = max(LEAST_IN_FLIGHT, round(SAMPLES_IN_FLIGHT / case.batch_size))
        streamed = max(6, min(queries, round(effort.streamed_samples / case.batch_size)))
        runs.append(run(STREAMED, "batched", "streamed", streamed, concurrency=in_flight))
    session = SessionPlan(session="s", agent=AGENT, batch_size=case.batch_size, runs=tuple(runs))
    return WorkOrder(
        evaluation="feeding",
        agent=AGENT,
        attempt=1,
        subject=subject,
        session=session,
        runs=tuple(plan.run for plan in runs),
    )


@contextmanager
def opened(
    case: Case, call_s: float, effort: Effort = FULL
) -> Iterator[tuple[Session, WorkOrder, SessionOpener]]:
    """Lend a case's session with its order and what opened it; predict takes about `call_s`."""
    order = order_of(case, case.subject(effort), call_s, effort)
    message = PerformOrder(order, SHIPPED_MANIFESTS, {}, ALLOWED, NO_ROOF)
    with TemporaryDirectory(prefix="mlscope-") as folder:
        opener = SessionOpener(message, Path(folder))
        session = opener.open()
        try:
            yield session, order, opener
        finally:
            session.close()


def bare_of(case: Case, session: Session) -> BareCalls:
    """Return bare calls of an opened session's model, on copies of its batches."""
    arrays = [next(iter(slot.inputs.values())) for slot in session.slots]
    return bare_calls(session.predictor, arrays, dict(case.options), session.subject.device)


def instant_of(session: Session) -> Session:
    """Return a session whose model answers at once, as it answered a first batch."""
    predictor: Any = session.predictor
    outputs = predictor.predict(session.slots[0].inputs)
    copies = {name: array.copy() for name, array in outputs.items()}
    return replace(session, predictor=Instant(predictor, copies))


def measure(case: Case, effort: Effort = FULL) -> dict[str, Any]:
    """Return the figures of one case."""
    with opened(case, 0.1, effort) as (session, _, opener):
        return figures(case, session, opener, effort)


def figures(case: Case, session: Session, opener: SessionOpener, effort: Effort) -> dict[str, Any]:
    """Return the figures of an opened session."""
    predictor: Any = session.predictor
    bare = bare_of(case, session)
    call_ms(bare.from_pinned, 4)
    call_s = call_ms(bare.from_pinned, 6) / 1e3

    order = order_of(case, session.subject, call_s, effort)
    # As many as a block has: a mean over more calls has more of the host's hiccups.
    overlapped_calls = order.session.runs[1].queries

    def time_bare() -> tuple[float, float]:
        return call_ms(bare.from_pinned, BARE_CALLS), overlapped_ms(bare.begin, overlapped_calls)

    blocks, outcomes = measured(session, order, time_bare, opener)
    conditions = {
        outcome.run: outcome.conditions for outcome in outcomes if isinstance(outcome, RunCompleted)
    }
    alone: list[float] = []
    one_by_one = Blockwise()
    if STREAMED in blocks.samples_per_s:
        calls_apart = replace(session, predictor=OneByOne(predictor))
        one_by_one = _again(calls_apart, order, opener, (ONLINE, STREAMED), ("", FREE))
        instant = instant_of(session)
        alone = _again(instant, order, opener, (STREAMED,)).samples_per_s[STREAMED]
    return {
        "case": case.name,
        "batch_size": case.batch_size,
        "predict_ms": blocks.predict_ms,
        "samples_per_s": blocks.samples_per_s,
        "bare_ms": {run: blocks.beside(run, 0) for run in blocks.predict_ms},
        "bare_two_ms": {run: blocks.beside(run, 1) for run in blocks.predict_ms},
        "one_by_one_ms": one_by_one.predict_ms,
        "one_by_one_per_s": one_by_one.samples_per_s,
        "preparation_per_s": alone,
        "host_memory": predictor.opened.host_memory,
        "predict_cores": sorted(session.supply.predicting_cores),
        "loop_ms": loop_ms_by_core(),
        "conditions": {
            run: {
                name: getattr(condition, name, None)
                for name in ("samples", "calls_in_flight", "prepare_threads", "prepare_processes")
            }
            for run, condition in conditions.items()
        },
        "endings": [getattr(outcome, "message", "completed") for outcome in outcomes],
        "caveats": [note for outcome in outcomes for note in getattr(outcome, "caveats", ())],
    }


def loop_ms_by_core() -> dict[str, float]:
    """Return the best of three times (ms) of one loop of Python on each core, by its number.

    Where they differ, a call that is bound by launches depends on the core that makes it.
    """
    times = {}
    for core in sorted(usable_core_numbers()):
        with kept_on(frozenset({core})):
            times[str(core)] = min(timeit.repeat("sum(range(100_000))", number=1, repeat=3)) * 1e3
    return times


def _again(
    session: Session,
    order: WorkOrder,
    opener: SessionOpener,
    names: Sequence[str],
    endings: Sequence[str] = ("",),
) -> Blockwise:
    """Do the runs of an order with these `names` once more, without bare calls between them.

    Each is done once for each of the `endings`, which its name gets.
    """
    plans = tuple(
        plan.model_copy(update={"run": plan.run + ending})
        for plan in order.session.runs
        if plan.run in names
        for ending in endings
    )
    plan = order.session.model_copy(update={"runs": plans})
    again = order.model_copy(update={"session": plan, "runs": tuple(p.run for p in plans)})
    return measured(session, again, lambda: (0.0, 0.0), opener)[0]
