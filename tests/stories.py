"""One evaluation's facts to tell, and the services a gateway or client asks, on a memory bus."""

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import numpy as np

from mlscope.bus.bus import Answerer, Bus
from mlscope.bus.records import ReceivedCommand
from mlscope.evaluation.fold import fold
from mlscope.evaluation.status import status_of, unrequested_status
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.analysis import Column, Compared, Table, Tables
from schemas.batch import QueriesAnswered, TraceCaptured
from schemas.encoding.codec import decode_body, encode_body, is_json, pack
from schemas.encoding.errors import MalformedMessage
from schemas.evaluation import (
    EvaluationAnalyzed,
    EvaluationMeasured,
    EvaluationPlanned,
    EvaluationRequested,
    MeasuredRun,
    RunStarted,
)
from schemas.exploration import Explore, Explored
from schemas.level import Level
from schemas.manifest import Assets, DatasetManifest, FrameworkNeed, ModelManifest
from schemas.message import Fact
from schemas.plan import Plan, RunPlan, SessionPlan, Subject
from schemas.price import Price, PriceKept, SetPrice
from schemas.request import (
    Accepted,
    AgentReason,
    Cancel,
    Compare,
    Evaluate,
    ListEvaluations,
    Match,
    Refused,
    ShowEvaluation,
    ShowTables,
)
from schemas.run import ClockOrigin, Conditions, RunCompleted, RunRecorded, Tally
from schemas.status import AgentStatus, Catalog, EvaluationList, FittingAgent, Matched
from schemas.subjects import REQUEST, story_of
from schemas.values.identity import keyed_evaluation_id, new_evaluation_id
from services.analyzer.exploring import EXPLORATIONS

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


_SPEAKERS: Mapping[object, str] = {
    RunRecorded: "collector",
    "run": "agent",
    "trace": "agent",
    "query": "agent",
    "analysis": "analyzer",
}
_OWNERS = {
    "catalog": "registry",
    "price": "registry",
    **dict.fromkeys(("tables", "compare", "explore"), "analyzer"),
}


class StandIns:
    """The scheduler, registry and analyzer as far as a client sees them, told by the log."""

    def __init__(self, bus: Bus, others: Mapping[str, Bus] | None = None) -> None:
        """`others` are buses by service, where each key may do only its own."""
        self.bus = bus
        self._others = others or {}
        self.cancelled: list[str] = []
        #: what was asked before it would be sent
        self.matched: list[Match] = []
        #: what was asked of the history
        self.listed: list[ListEvaluations] = []
        self.models: tuple[ModelManifest, ...] = (a_model(),)
        self.agents: tuple[AgentStatus, ...] = ()
        #: whether the catalog is answered in the encoding of its question
        self.answers_json = True
        #: evaluations whose requests were told, in their order
        self.requested: list[str] = []
        #: evaluations that only answered files, which lists have where they are asked for
        self.predicted: list[str] = []
        #: what the catalog has beside models
        self.catalog: dict[str, Any] = {}
        #: what an evaluation's status is answered with, instead of its story's
        self.status_answer: dict[str, Any] = {}
        #: what a match is refused with
        self.match_refused: Refused | None = None
        #: the seconds that six earlier runs say a request takes
        self.expected_s: float | None = None
        #: of a table, that an answer to `tables` holds
        self.most_rows = 1000
        self.held = [LATENCY]
        #: main figures of loads, as the table `headline` has them
        self.loads: list[dict[str, Any]] = []
        #: what explorations were asked for
        self.explored: list[Explore] = []
        #: what figures were asked for
        self.compared: list[Compare] = []
        #: the tables of a comparison; without any it has those that are held
        self.comparison: list[Table] = []
        #: told of each accepted evaluation, after its `EvaluationRequested`
        self.then: Callable[[str], list[Fact]] = lambda _: []
        #: told of each evaluation that is cancelled
        self.then_cancelled: Callable[[str], list[Fact]] = lambda _: []
        self._ids = count()

    async def tell(self, *facts: Fact) -> None:
        """Publish facts in order."""
        for fact in facts:
            if isinstance(fact, EvaluationRequested):
                self.requested.append(fact.evaluation)
            await self._speaker(fact).publish(fact, id=f"{id(self)}-{next(self._ids)}")

    def _speaker(self, fact: Fact) -> Bus:
        service = _SPEAKERS.get(type(fact)) or _SPEAKERS.get(fact.entity, "scheduler")
        return self._others.get(service, self.bus)

    async def open(self) -> None:
        """Answer requests from now on."""
        verbs: dict[str, Answerer] = {
            "evaluate": self._evaluate,
            "match": self._match,
            "cancel": self._cancel,
            "evaluation": self._evaluation,
            "evaluations": self._evaluations,
            "catalog": self._catalog,
            "price": self._price,
            "tables": self._tables,
            "compare": self._compare,
            "explore": self._explore,
        }
        for verb, answerer in verbs.items():
            bus = self._others.get(_OWNERS.get(verb, "scheduler"), self.bus)
            await bus.answer(f"{REQUEST}.{verb}", answerer, queue=verb)

    async def _evaluate(self, asked: ReceivedCommand) -> bytes:
        try:
            request = decode_body(Evaluate, asked.body)
        except MalformedMessage as error:
            return encode_body(Refused(error="malformed", message=str(error), field=error.field))
        refusals = {
            "unknown-model": Refused(error="unknown", message="no such model", field="model"),
            "too-large": Refused(
                error="unsatisfiable",
                message="no agent fits",
                agents=(AgentReason(agent=AGENT, reason="too little memory"),),
            ),
        }
        if isinstance(request.model, str) and request.model in refusals:
            return encode_body(refusals[request.model])
        evaluation = keyed_evaluation_id(request.key) if request.key else new_evaluation_id()
        await self.tell(EvaluationRequested(evaluation=evaluation, request=request, requested_ns=1))
        await self.tell(*self.then(evaluation))
        return encode_body(Accepted(evaluation=evaluation, address=f"/evaluations/{evaluation}"))

    async def _match(self, asked: ReceivedCommand) -> bytes:
        request = decode_body(Match, asked.body)
        self.matched.append(request)
        if self.match_refused is not None:
            return encode_body(self.match_refused)
        agent = FittingAgent(
            agent=AGENT,
            framework="onnxruntime",
            version="1.31.0",
            device="cpu",
            deepest_level=Level.FRAMEWORK,
            chosen=True,
        )
        reason = AgentReason(agent="edge", reason="memory 1.0 GiB, wanted 8.0 GiB")
        return encode_body(
            Matched(
                model=f"{request.model}:1.0.0",
                dataset="photos:1.0.0",
                agents=(agent,),
                reasons=(reason,),
                sessions=1,
                runs=2,
                budget_s=20.0,
                expected_s=self.expected_s,
                expected_from=6,
            )
        )

    async def _cancel(self, asked: ReceivedCommand) -> bytes:
        command = decode_body(Cancel, asked.body)
        self.cancelled.append(command.evaluation)
        await self.tell(*self.then_cancelled(command.evaluation))
        return encode_body(Accepted(evaluation=command.evaluation))

    async def _evaluation(self, asked: ReceivedCommand) -> bytes:
        if self.status_answer:
            return pack(self.status_answer)
        evaluation = decode_body(ShowEvaluation, asked.body).evaluation
        story = await self.bus.read(story_of(evaluation))
        if not story:
            return encode_body(
                Refused(error="unknown", message=f"no evaluation {evaluation}; list them")
            )
        return encode_body(status_of(fold(recorded.fact for recorded in story)))

    async def _evaluations(self, asked: ReceivedCommand) -> bytes:
        command = decode_body(ListEvaluations, asked.body)
        self.listed.append(command)
        stories = [await self.bus.read(story_of(name)) for name in reversed(self.requested)]
        records = [fold(recorded.fact for recorded in story) for story in stories]
        statuses = [status_of(record, runs=False) for record in records]
        if not (statuses or command.state):
            statuses = [unrequested_status(E)]
        if command.predictions:
            statuses = [*map(unrequested_status, self.predicted), *statuses]
        matching = tuple(each for each in statuses if command.state in ("", each.state))
        return encode_body(EvaluationList(evaluations=matching[: command.limit]))

    async def _catalog(self, asked: ReceivedCommand) -> bytes:
        catalog = Catalog(models=self.models, agents=self.agents, **self.catalog)
        return encode_body(catalog, json_text=self.answers_json and is_json(asked.body))

    async def _price(self, asked: ReceivedCommand) -> bytes:
        command = decode_body(SetPrice, asked.body)
        dollars, kept = command.dollars_per_hour, dict(self.catalog.get("prices", {}))
        kept.pop(command.agent, None)
        new = {command.agent: Price(dollars_per_hour=dollars)} if dollars else {}
        self.catalog["prices"] = {**kept, **new}
        return encode_body(PriceKept(agent=command.agent, dollars_per_hour=dollars))

    async def _compare(self, asked: ReceivedCommand) -> bytes:
        command = decode_body(Compare, asked.body)
        self.compared.append(command)
        found = Compared(
            first=command.first,
            second=command.second,
            first_run="",
            second_run="",
            tables=tuple(self.comparison or self.held),
            others=command.others,
        )
        return encode_body(found)

    async def _explore(self, asked: ReceivedCommand) -> bytes:
        command = decode_body(Explore, asked.body)
        self.explored.append(command)
        by_name = {each.name: each for each in EXPLORATIONS}
        if command.table and command.table not in by_name:
            return encode_body(Refused(error="unknown", message="no such exploration"))
        wanted = command.model_dump(include={"model", "agent"}).items()
        loads = [load for load in self.loads if all(v in ("", load[n]) for n, v in wanted)]
        table = by_name[command.table].compute(loads, command.prices) if command.table else None
        names = ("task", "model", "framework", "agent", "device", "scenario")
        return encode_body(
            Explored(
                table=table,
                tables=tuple((each.name, each.title) for each in EXPLORATIONS),
                loads=len(loads),
                total_loads=len(loads),
                total_rows=len(table.rows) if table else 0,
                choices={n: tuple(sorted({load[n] for load in self.loads})) for n in names},
            )
        )

    async def _tables(self, asked: ReceivedCommand) -> bytes:
        command = decode_body(ShowTables, asked.body)
        if "nosuch" in command.tables:
            return encode_body(
                Refused(error="unknown", message="no table is called nosuch", field="tables")
            )
        names = set(command.tables)
        wanted = [table for table in self.held if not names or names & {table.name, table.id}]
        some = slice(command.offset, command.offset + self.most_rows)
        return encode_body(
            Tables(
                evaluation=command.evaluation,
                tables=tuple(t.model_copy(update={"rows": t.rows[some]}) for t in wanted),
                total_rows={each.name: len(each.rows) for each in wanted},
            )
        )


@asynccontextmanager
async def stand_ins(server: MemoryServer) -> AsyncIterator[StandIns]:
    """Lend stand-ins that answer on a memory server."""
    async with connect(server, "scheduler") as bus:
        standing = StandIns(bus)
        await standing.open()
        yield standing
