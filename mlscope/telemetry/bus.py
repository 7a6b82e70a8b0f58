"""A bus that records the way of each evaluation as spans: who handled what, caused by what.

A service does nothing for it: what it hears and says on the bus tells. Spans are accept (the
request), match and decide (the scheduler), command (to an agent), session and run (the agent),
collect and analyze. Facts carry the context that they come from in their envelope and in a header,
commands in a header. Batches and single queries have no spans of their own.
"""

from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, cast

from opentelemetry.trace import Span, SpanKind, StatusCode

from mlscope.bus.bus import Answerer, Bus, Delivery
from mlscope.bus.errors import BusError
from mlscope.bus.records import ReceivedCommand
from mlscope.bus.wrapping import WrappedBus
from mlscope.telemetry.tracer import Tracer, traceparent_of
from schemas.encoding.codec import decode_body, unpack
from schemas.encoding.errors import SchemaError
from schemas.evaluation import EvaluationRequested
from schemas.message import Fact
from schemas.plan import WorkAnswer, WorkOrder
from schemas.request import Evaluate
from schemas.run import RunCompleted, RunFailed
from schemas.subjects import REQUEST, decisions_of

EVALUATION, RUN, ATTEMPT = "mlscope.evaluation", "mlscope.run", "mlscope.attempt"
"""The attributes of spans: those of an evaluation have its id, those of a run all three."""

_START, _KNOWN = "start", "known"
_COMMANDS = (_START, "stop", "close")
_BATCHES = ("trace", "query", "output")
_NAMES = {"scheduler": "decide", "recorder": "collect", "analyzer": "analyze"}
"""The durables whose facts have spans, and the names of these."""
_READS_THE_LOG = ("scheduler", "collector", "analyzer")
_MOST_REMEMBERED = 1000

_answering: ContextVar[Span | None] = ContextVar("_answering", default=None)
"""The span of the request that is being answered."""


@dataclass
class _Session:
    """An order that an agent accepted, until all of its runs have ended."""

    span: Span
    open_runs: set[str] = field(default_factory=set)
    #: the contexts of its runs before it, '' for none
    contexts_before: dict[tuple[str, str], str] = field(default_factory=dict)


class TracedBus(WrappedBus):
    """The bus of one service, which records spans of what passes."""

    def __init__(self, bus: Bus, tracer: Tracer) -> None:
        """Record what passes on `bus` with `tracer`."""
        super().__init__(bus)
        self._tracer = tracer
        #: the newest W3C traceparent of an evaluation (run ''), and of each of its runs
        self._contexts: OrderedDict[tuple[str, str], str] = OrderedDict()
        #: the session under way of each attempt: by evaluation, run and number
        self._sessions: dict[tuple[str, str, int], _Session] = {}

    async def publish(self, fact: Fact, *, traceparent: str = "", **options: Any) -> int:
        """Record `fact` with the context that it comes from, as `Bus.publish`.

        `traceparent` and the further `options` are as there.
        """
        if not isinstance(fact, RunCompleted | RunFailed):
            traceparent = traceparent or await self._context_of(fact)
            return await self._bus.publish(fact, traceparent=traceparent, **options)
        span = self._run_span(fact)
        sequence = await self._bus.publish(fact, traceparent=traceparent_of(span), **options)
        span.end((fact.origin.epoch_end_ns if fact.origin else 0) or None)
        session = self._sessions.pop((fact.evaluation, fact.run, fact.attempt), None)
        if session is not None:
            session.open_runs.discard(fact.run)
            if not session.open_runs:
                session.span.end()
        return sequence

    async def ask(self, subject: str, body: bytes, **options: Any) -> bytes:
        """Send `body` to `subject`, a command with its context, as `Bus.ask` with its `options`."""
        verb = subject.rpartition(".")[2]
        is_to_agent = subject.startswith(f"{REQUEST}.agent.") and verb in _COMMANDS
        if not is_to_agent and subject != f"{REQUEST}.{Evaluate.verb}":
            return await self._bus.ask(subject, body, **options)
        evaluation = str(unpack(body).get("evaluation", "")) if is_to_agent else ""
        parent = await self._context(evaluation, "")
        span = self._begin(f"command {verb}", evaluation, parent, SpanKind.CLIENT)
        options["traceparent"] = traceparent_of(span)
        try:
            return await self._bus.ask(subject, body, **options)
        except BusError as error:
            span.set_status(StatusCode.ERROR, str(error))
            raise
        finally:
            span.end()

    async def answer(self, subject: str, answerer: Answerer, **options: Any) -> None:
        """Answer commands on `subject` by `answerer`; `options` are those of `Bus.answer`."""
        verb = subject.rpartition(".")[2]
        if verb == Evaluate.verb:
            answerer = self._accepting(answerer)
        elif verb == _START and subject.startswith(f"{REQUEST}.agent."):
            answerer = self._starting(answerer)
        await self._bus.answer(subject, answerer, **options)

    def deliveries(
        self, durable: str, *, batch: int = 1
    ) -> AsyncGenerator[Sequence[Delivery], None]:
        """Yield deliveries of a durable, up to `batch` at a time, as `Bus.deliveries`."""
        source = self._bus.deliveries(durable, batch=batch)
        if durable not in _NAMES:
            return source

        def begun(delivery: Delivery) -> Delivery:
            recorded = delivery.recorded
            fact, parent = recorded.fact, recorded.envelope.traceparent
            evaluation = str(getattr(fact, "evaluation", ""))
            is_request = isinstance(fact, EvaluationRequested)
            name = "match" if is_request else _NAMES[durable]
            span = self._begin(name, evaluation, parent, SpanKind.CONSUMER)
            span.set_attribute("mlscope.fact", fact.schema_name())
            self._remember(fact, span)
            return cast("Delivery", _TracedDelivery(delivery, span))

        async def traced() -> AsyncGenerator[Sequence[Delivery], None]:
            async with aclosing(source):
                async for deliveries in source:
                    yield [begun(delivery) for delivery in deliveries]

        return traced()

    def _accepting(self, answerer: Answerer) -> Answerer:
        """Return an answerer that answers a request within a span."""

        async def accept(command: ReceivedCommand) -> bytes | None:
            span = self._tracer.begin("accept", command.traceparent, SpanKind.SERVER)
            token = _answering.set(span)
            try:
                return await answerer(command)
            finally:
                _answering.reset(token)
                span.end()

        return accept

    def _starting(self, answerer: Answerer) -> Answerer:
        """Return an answerer of orders that begins a session's span with each new one."""

        async def start(command: ReceivedCommand) -> bytes | None:
            session = None
            with suppress(SchemaError):
                session = self._open_session(
                    decode_body(WorkOrder, command.body), command.traceparent
                )
            answer = await answerer(command)
            if session is not None and not _is_begun(answer):
                for key in [key for key, open_ in self._sessions.items() if open_ is session]:
                    del self._sessions[key]
                for run, context in session.contexts_before.items():
                    if context:
                        self._keep(run, context)
                    else:
                        self._contexts.pop(run, None)
            return answer

        return start

    def _open_session(self, order: WorkOrder, parent: str) -> _Session | None:
        """Begin the span of an order; None where it has one, since orders are repeated."""
        keys = [(order.evaluation, run, order.attempt) for run in order.runs]
        if any(key in self._sessions for key in keys):
            return None
        span = self._begin("session", order.evaluation, parent, SpanKind.SERVER)
        span.set_attribute(ATTEMPT, order.attempt)
        session = _Session(span, set(order.runs))
        for key in keys:
            self._sessions[key] = session
            session.contexts_before[key[:2]] = self._contexts.get(key[:2], "")
            self._keep(key[:2], traceparent_of(span))
        return session

    def _run_span(self, outcome: RunCompleted | RunFailed) -> Span:
        """Begin the span of a run when it began, by its agent's clock."""
        origin = outcome.origin
        parent = self._contexts.get((outcome.evaluation, outcome.run), "")
        start_ns = origin.epoch_start_ns if origin else None
        span = self._tracer.begin("run", parent, start_ns=start_ns)
        names = {EVALUATION: outcome.evaluation, RUN: outcome.run, ATTEMPT: outcome.attempt}
        span.set_attributes(names)
        if isinstance(outcome, RunFailed):
            span.set_status(StatusCode.ERROR, outcome.message)
        return span

    async def _context_of(self, fact: Fact) -> str:
        """Return the context that a fact comes from, '' for one of no evaluation."""
        evaluation = str(getattr(fact, "evaluation", ""))
        if not evaluation or fact.entity in _BATCHES:
            return ""
        if (span := _answering.get()) is not None:
            span.set_attribute(EVALUATION, evaluation)
            self._remember(fact, span)
            return traceparent_of(span)
        return await self._context(evaluation, str(getattr(fact, "run", "")))

    async def _context(self, evaluation: str, run: str) -> str:
        """Return the newest context of an evaluation's run, or of the evaluation.

        One that is not known here, after a restart, is that of the request in the log.
        """
        for key in ((evaluation, run), (evaluation, "")):
            if key in self._contexts:
                return self._contexts[key]
        if not evaluation or self._bus.name not in _READS_THE_LOG:
            return ""
        with suppress(BusError):
            for recorded in await self._bus.read(decisions_of(evaluation), at_most=1):
                self._keep((evaluation, ""), recorded.envelope.traceparent)
                return recorded.envelope.traceparent
        return ""

    def _begin(self, name: str, evaluation: str, parent: str, kind: SpanKind) -> Span:
        span = self._tracer.begin(name, parent, kind)
        if evaluation:
            span.set_attribute(EVALUATION, evaluation)
        return span

    def _remember(self, fact: Fact, span: Span) -> None:
        """Remember what led to whatever is said next of the evaluation, and run, of a fact."""
        evaluation, run = str(getattr(fact, "evaluation", "")), str(getattr(fact, "run", ""))
        for key in {(evaluation, ""), (evaluation, run)}:
            self._keep(key, traceparent_of(span))

    def _keep(self, key: tuple[str, str], traceparent: str) -> None:
        self._contexts[key] = traceparent
        self._contexts.move_to_end(key)
        while len(self._contexts) > _MOST_REMEMBERED:
            self._contexts.popitem(last=False)


class _TracedDelivery:
    """A delivery whose span ends when it is settled."""

    def __init__(self, delivery: Delivery, span: Span) -> None:
        self._delivery, self._span = delivery, span

    def __getattr__(self, name: str) -> Any:
        return getattr(self._delivery, name)

    async def ack(self) -> None:
        """Acknowledge the fact."""
        self._span.end()
        await self._delivery.ack()

    async def retry(self, delay_s: float | None = None) -> None:
        """Request redelivery after `delay_s` seconds."""
        self._span.add_event("retry")
        self._span.end()
        await self._delivery.retry(delay_s)

    async def bury(self, reason: str) -> None:
        """Record the fact as a dead letter with the reason."""
        self._span.set_status(StatusCode.ERROR, reason)
        self._span.end()
        await self._delivery.bury(reason)


def _is_begun(answer: bytes | None) -> bool:
    """Tell whether an agent begins the order that it answers; one that it knows is repeated."""
    try:
        work_answer = decode_body(WorkAnswer, answer) if answer is not None else None
    except SchemaError:
        return False
    return work_answer is not None and work_answer.accepted and work_answer.message != _KNOWN
