"""The services that a gateway or client asks, on a memory bus: they are told what to answer."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from mlscope.bus.bus import Answerer, Bus
from mlscope.bus.records import ReceivedCommand
from mlscope.evaluation.fold import fold
from mlscope.evaluation.status import status_of, unrequested_status
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.analysis import Compared, Table, Tables
from schemas.encoding.codec import decode_body, encode_body, is_json, pack
from schemas.encoding.errors import MalformedMessage
from schemas.evaluation import EvaluationRequested
from schemas.exploration import Explore, Explored
from schemas.level import Level
from schemas.manifest import ModelManifest
from schemas.message import Fact
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
from schemas.run import RunRecorded
from schemas.status import AgentStatus, Catalog, EvaluationList, FittingAgent, Matched
from schemas.subjects import REQUEST, story_of
from schemas.values.identity import keyed_evaluation_id, new_evaluation_id
from services.analyzer.exploring import EXPLORATIONS
from tests.stories import AGENT, LATENCY, E, a_model

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
        matching = tuple(s for s in statuses if command.state in ("", s.state))
        return encode_body(EvaluationList(evaluations=matching[: command.limit]))

    async def _catalog(self, asked: ReceivedCommand) -> bytes:
        catalog = Catalog(models=self.models, agents=self.agents, **self.catalog)
        return encode_body(catalog, json_text=self.answers_json and is_json(asked.body))

    async def _price(self, asked: ReceivedCommand) -> bytes:
        command = decode_body(SetPrice, asked.body)
        dollars, prices = command.dollars_per_hour, dict(self.catalog.get("prices", {}))
        prices.pop(command.agent, None)
        if dollars:
            prices[command.agent] = Price(dollars_per_hour=dollars)
        self.catalog["prices"] = prices
        return encode_body(PriceKept(agent=command.agent, dollars_per_hour=dollars))

    async def _compare(self, asked: ReceivedCommand) -> bytes:
        command = decode_body(Compare, asked.body)
        self.compared.append(command)
        compared = Compared(
            first=command.first,
            second=command.second,
            first_run="",
            second_run="",
            tables=tuple(self.comparison or self.held),
            others=command.others,
        )
        return encode_body(compared)

    async def _explore(self, asked: ReceivedCommand) -> bytes:
        command = decode_body(Explore, asked.body)
        self.explored.append(command)
        by_name = {exploration.name: exploration for exploration in EXPLORATIONS}
        if command.table and command.table not in by_name:
            return encode_body(Refused(error="unknown", message="no such exploration"))
        filters = command.model_dump(include={"model", "agent"}).items()
        loads = [load for load in self.loads if all(v in ("", load[n]) for n, v in filters)]
        table = by_name[command.table].compute(loads, command.prices) if command.table else None
        names = ("task", "model", "framework", "agent", "device", "scenario")
        return encode_body(
            Explored(
                table=table,
                tables=tuple((exploration.name, exploration.title) for exploration in EXPLORATIONS),
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
        tables = [table for table in self.held if not names or names & {table.name, table.id}]
        some = slice(command.offset, command.offset + self.most_rows)
        return encode_body(
            Tables(
                evaluation=command.evaluation,
                tables=tuple(t.model_copy(update={"rows": t.rows[some]}) for t in tables),
                total_rows={table.name: len(table.rows) for table in tables},
            )
        )


@asynccontextmanager
async def stand_ins(server: MemoryServer) -> AsyncIterator[StandIns]:
    """Lend stand-ins that answer on a memory server."""
    async with connect(server, "scheduler") as bus:
        standing = StandIns(bus)
        await standing.open()
        yield standing
