"""Facts of one evaluation, valid by default."""

from typing import Any

from mlscope.tracing.batches import Attempt, linked_batch, output_batch, query_batch, trace_batch
from schemas.batch import OutputsPredicted, QueriesAnswered, TraceCaptured
from schemas.evaluation import EvaluationPlanned, EvaluationRequested, RunInterrupted, RunStarted
from schemas.manifest import Assets, DatasetManifest, FrameworkNeed, ModelManifest
from schemas.plan import Plan, RunPlan, SessionPlan, Subject
from schemas.request import Evaluate
from schemas.run import ClockOrigin, Conditions, RunCompleted, Tally

REQUESTED_NS = 1_795_226_400_123_456_789
GIVEN_UP = RunInterrupted(evaluation="e1", run="r0", attempt=1, agent="a1", cause="agent lost")


def an_attempt(run: str = "r0", attempt: int = 1) -> Attempt:
    return Attempt(evaluation="e1", run=run, attempt=attempt, agent="a1")


def a_trace(sequence: int = 0, count: int = 4, **changes: Any) -> TraceCaptured:
    attributes = [b'{"index": 1}' if row % 3 == 2 else b"" for row in range(count)]
    rows = [
        (row, row - 1, 2, 7, 10 * row, 5, 1, row // 2, 0, attributes[row]) for row in range(count)
    ]
    batch = trace_batch(an_attempt(), sequence, rows, {"predict": 7})
    return batch.model_copy(update=changes)


def a_linked_trace(sequence: int = 0, **changes: Any) -> TraceCaptured:
    """Return a launch and the kernel that it started: on stream 7 of device 1."""
    rows = [
        (1, -1, 5, 1, 10, 5, 4242, 0, 0, b"", 1, 33),
        (2, -1, 5, 2, 20, 30, 7, -1, 0, b'{"device": 1}', 2, 33),
    ]
    batch = linked_batch(an_attempt(), sequence, rows, {"cudaLaunchKernel": 1, "gemm": 2})
    return batch.model_copy(update=changes)


def some_queries(sequence: int = 0, count: int = 3, **changes: Any) -> QueriesAnswered:
    rows = [
        (row, 0, 1, -1 if row == 0 else row, row, row, row + 9, -1, 0, "torn" if row == 2 else "")
        for row in range(count)
    ]
    return query_batch(an_attempt(), sequence, rows).model_copy(update=changes)


def some_outputs(sequence: int = 0, count: int = 2, **changes: Any) -> OutputsPredicted:
    rows = [(row, row, b'[{"label": "cat", "probability": 0.5}]') for row in range(count)]
    return output_batch(an_attempt(), sequence, rows).model_copy(update=changes)


def a_request() -> EvaluationRequested:
    return EvaluationRequested(
        evaluation="e1", request=Evaluate(model="identity"), requested_ns=REQUESTED_NS
    )


def a_start(**changes: Any) -> RunStarted:
    return RunStarted(
        evaluation="e1", run="r0", session="s0", attempt=1, agent="a1", started_ns=1
    ).model_copy(update=changes)


def a_plan(pacing: str = "local") -> EvaluationPlanned:
    run = RunPlan(run="r0", group=0, scenario="online", level="model", queries=3, pacing=pacing)
    model = ModelManifest(
        name="identity",
        version="1.0.0",
        framework=FrameworkNeed(name="onnxruntime"),
        inputs=(),
        outputs=(),
        model=Assets(),
    )
    subject = Subject(model=model, dataset=DatasetManifest(name="vectors"), framework="onnxruntime")
    session = SessionPlan(session="s0", agent="a1", batch_size=1, runs=(run,))
    return EvaluationPlanned(evaluation="e1", plan=Plan(subject=subject, sessions=(session,)))


def a_completion(**changes: Any) -> RunCompleted:
    tally = Tally(trace_batches=1, query_batches=1, output_batches=1, spans=4, queries=3, outputs=2)
    return RunCompleted(
        evaluation="e1",
        run="r0",
        attempt=1,
        agent="a1",
        tally=tally,
        origin=ClockOrigin(monotonic_ns=1, epoch_start_ns=2),
        conditions=Conditions(framework_version="1.23.0"),
        level="model",
    ).model_copy(update=changes)
