"""One evaluation's facts, to tell on a bus or to fold."""

import time
from collections.abc import Sequence

import numpy as np

from schemas.analysis import Column, Table
from schemas.batch import QueriesAnswered, TraceCaptured
from schemas.evaluation import (
    EvaluationAnalyzed,
    EvaluationMeasured,
    EvaluationPlanned,
    EvaluationRequested,
    MeasuredRun,
    RunStarted,
)
from schemas.level import Level
from schemas.manifest import Assets, DatasetManifest, FrameworkNeed, ModelManifest
from schemas.message import Fact
from schemas.plan import Plan, RunPlan, SessionPlan, Subject
from schemas.request import Evaluate
from schemas.run import ClockOrigin, Conditions, RunCompleted, RunRecorded, Tally

E = "0123456789abcdef"
AGENT = "a1"
LATENCY = Table(
    name="latency",
    title="Latency",
    columns=(Column(name="run", type="text"), Column(name="p50", type="float", unit="ns")),
    rows=(("r0", 5_000_000.0), ("r1", float("nan"))),
    verdict="Half of the queries took 5 ms.",
)
FAILURES = Table(
    name="failures",
    title="Why queries failed",
    columns=(Column(name="run", type="text"), Column(name="reason", type="text")),
    rows=(("r0", "decode: torn"),),
)


def a_model() -> ModelManifest:
    """Return a model of no consequence."""
    return ModelManifest(
        name="tiny",
        version="1.0.0",
        framework=FrameworkNeed(name="onnxruntime"),
        inputs=(),
        outputs=(),
        model=Assets(graph_path="m.onnx"),
    )


def a_plan(runs: int = 2, queries: int = 100) -> Plan:
    """Return a plan of one session; runs are r0, r1 and so on."""
    planned = tuple(
        RunPlan(run=f"r{n}", group=0, scenario="online", level=Level.MODEL, queries=queries)
        for n in range(runs)
    )
    session = SessionPlan(session="s0", agent=AGENT, batch_size=1, runs=planned)
    subject = Subject(model=a_model(), dataset=DatasetManifest(name="d"), framework="onnxruntime")
    return Plan(subject=subject, sessions=(session,))


def beginning(evaluation: str = E, runs: int = 2) -> list[Fact]:
    """Return what happens before the first run."""
    return [
        EvaluationRequested(
            evaluation=evaluation, request=Evaluate(model="tiny"), requested_ns=time.time_ns()
        ),
        EvaluationPlanned(evaluation=evaluation, plan=a_plan(runs)),
    ]


def a_run(run: str, evaluation: str = E, attempt: int = 1) -> list[Fact]:
    """Return what happens to one run that goes well."""
    whose = {"evaluation": evaluation, "run": run, "attempt": attempt}
    return [
        RunStarted(**whose, session="s0", agent=AGENT, started_ns=1),
        RunCompleted(
            **whose,
            agent=AGENT,
            tally=Tally(spans=300, queries=100, trace_batches=1, query_batches=1),
            origin=ClockOrigin(monotonic_ns=0, epoch_start_ns=0),
            conditions=Conditions(),
            level=Level.MODEL,
        ),
        RunRecorded(**whose, spans=300, queries=100, outputs=0),
    ]


def ending(evaluation: str = E, runs: int = 2) -> list[Fact]:
    """Return what happens after the last run."""
    measured = tuple(
        MeasuredRun(run=f"r{n}", attempt=1, end="completed", agent=AGENT) for n in range(runs)
    )
    return [
        EvaluationMeasured(evaluation=evaluation, runs=measured),
        EvaluationAnalyzed(evaluation=evaluation, tables=("latency",)),
    ]


def whole_story(evaluation: str = E, runs: int = 2) -> list[Fact]:
    """Return an evaluation from beginning to end."""
    middle = [fact for n in range(runs) for fact in a_run(f"r{n}", evaluation)]
    return [*beginning(evaluation, runs), *middle, *ending(evaluation, runs)]


def queries(
    latencies_ns: Sequence[int], *, run: str = "r0", sequence: int = 0, evaluation: str = E
) -> QueriesAnswered:
    """Return a batch of answered closed-loop queries of these latencies."""
    n = len(latencies_ns)
    zeros = np.zeros(n, "<i8").tobytes()
    return QueriesAnswered(
        evaluation=evaluation,
        run=run,
        attempt=1,
        agent=AGENT,
        sequence=sequence,
        count=n,
        query=np.arange(n, dtype="<i4").tobytes(),
        block=np.zeros(n, "<i2").tobytes(),
        size=np.ones(n, "<i4").tobytes(),
        due_ns=np.full(n, -1, "<i8").tobytes(),
        issued_ns=zeros,
        started_ns=zeros,
        ended_ns=np.array(latencies_ns, "<i8").tobytes(),
        service_ns=np.full(n, -1, "<i8").tobytes(),
        status=np.zeros(n, np.int8).tobytes(),
    )


def spans(n: int, *, run: str = "r0", sequence: int = 0, evaluation: str = E) -> TraceCaptured:
    """Return a batch that says it holds `n` spans; its columns are empty."""
    columns = ("span", "parent", "level", "name", "start_ns", "duration_ns", "thread")
    return TraceCaptured(
        evaluation=evaluation,
        run=run,
        attempt=1,
        agent=AGENT,
        sequence=sequence,
        count=n,
        name_ids=(),
        name_texts=(),
        query=b"",
        block=b"",
        **dict.fromkeys(columns, b""),
    )
