"""Every evaluation at once: those open in full, those ended as a bounded list of summaries.

Mutable, without I/O. Facts may come twice and by two ways (a followed log, a story read anew):
each evaluation takes what is beyond its own sequence. The digest is a sum over evaluations, so
their order never matters and an ended one can be forgotten.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mlscope.bus.bus import Recorded
from schemas.evaluation import EvaluationRequested
from schemas.request import ListEvaluations
from schemas.status import Catalog, EvaluationStatus
from services.scheduler.digests import combined
from services.scheduler.history import checks_of, row_of
from services.scheduler.listing import Listing
from services.scheduler.queues import Place, Queues
from services.scheduler.state import EvaluationState, Run, evolve
from services.scheduler.status import digest_of_state, status_of


@dataclass(slots=True)
class Board:
    """What one scheduler knows of evaluations."""

    #: where an evaluation's page is, before its id
    pages: str = ""
    #: how many may be open before requests are refused as busy
    most_open: int = 10_000
    #: how many ended evaluations are listed; older ones are read from the log when asked for
    most_ended: int = 10_000
    open: dict[str, EvaluationState] = field(default_factory=dict)
    ended: OrderedDict[str, EvaluationStatus] = field(default_factory=OrderedDict)
    sequence: int = 0
    _total: int = 0
    _digests: dict[str, str] = field(default_factory=dict)
    _queues: Queues = field(default_factory=Queues)
    _claims: dict[str, Counter[str]] = field(default_factory=dict)
    _loads: Counter[str] = field(default_factory=Counter)
    _listing: Listing = field(default_factory=Listing)

    def take(self, recorded: Recorded) -> EvaluationState | None:
        """Fold a fact in; return its evaluation's state when the fact was new to it."""
        name = str(getattr(recorded.fact, "evaluation", ""))
        before = self.open.get(name)
        if before is None:
            if name in self.ended or not isinstance(recorded.fact, EvaluationRequested):
                return None
            before = EvaluationState()
        after = evolve(before, recorded)
        if after is before:
            return None
        self._keep(name, after)
        return after

    def follow(self, recorded: Recorded) -> None:
        """Fold a fact in that comes in the log's own order."""
        self.take(recorded)
        self.sequence = max(self.sequence, recorded.sequence)

    def _keep(self, name: str, state: EvaluationState) -> None:
        self._digests.pop(name, None)
        self._listing.put(name, row_of(state))
        if state.is_ended:
            self.open.pop(name, None)
            self.ended[name] = status_of(state, f"{self.pages}{name}", runs=False)
            self._total = combined(self._total, digest_of_state(state))
            if len(self.ended) > self.most_ended:
                oldest, _ = self.ended.popitem(last=False)
                self._listing.drop(oldest)
        else:
            self.open[name] = state
        self._reclaim(name, state)

    def digest(self) -> str:
        """Return the digest of every evaluation ever folded, in hex."""
        total = self._total
        for name, state in self.open.items():
            if name not in self._digests:
                self._digests[name] = digest_of_state(state)
            total = combined(total, self._digests[name])
        return f"{total:064x}"

    def _reclaim(self, name: str, state: EvaluationState) -> None:
        """Set anew which agents an evaluation has unfinished runs on."""
        self._loads -= self._claims.pop(name, Counter())
        if not state.is_ended:
            claims = Counter(run.agent for run in state.runs.values() if _is_unfinished(run))
            self._loads += claims
            if claims:
                self._claims[name] = claims
        self._queues.put(name, self._places(name, state))

    def _places(self, name: str, state: EvaluationState) -> dict[str, Place]:
        under_way = {run.agent for run in state.runs.values() if run.is_under_way}
        return {
            agent: (agent not in under_way, state.requested_ns, name)
            for agent in self._claims.get(name, ())
        }

    def stand_in(self, name: str, agents: Iterable[str]) -> None:
        """Have an open evaluation wait for agents that are to stand in for others of its plan.

        It keeps the place it was requested at, until something is said of it.
        """
        state = self.open.get(name)
        if state is not None:
            places = dict.fromkeys(agents, (True, state.requested_ns, name))
            self._queues.put(name, places | self._places(name, state))

    def agents_of(self, name: str) -> frozenset[str]:
        """Return the agents an evaluation has unfinished runs on, or waits for."""
        return self._queues.agents_of(name)

    def turn(self, agent: str) -> str:
        """Return whose turn it is on an agent: who has runs under way there, else who came first.

        '' when nobody waits for it.
        """
        return self._queues.first(agent)

    def turns(self) -> dict[str, str]:
        """Return whose turn it is on every agent that anybody waits for."""
        return self._queues.firsts()

    def loads(self) -> Mapping[str, int]:
        """Return the unfinished runs of every agent."""
        return dict(self._loads)

    def listed(
        self, wish: ListEvaluations, catalog: Catalog | None = None
    ) -> list[EvaluationStatus]:
        """Return the newest evaluations that fit, newest first. Raises RequestRefused.

        What the system must be is asked of the agents of the catalog, as they are now.
        """
        model = wish.model.partition(":")[0].strip()
        found = self._listing.newest(
            wish.limit, model, wish.state, checks_of(wish, catalog or Catalog())
        )
        return [self._summary(name) for name in found]

    def _summary(self, name: str) -> EvaluationStatus:
        state = self.open.get(name)
        if state is None:
            return self.ended[name]
        return status_of(state, f"{self.pages}{name}", runs=False)


def _is_unfinished(run: Run) -> bool:
    if run.state == "failed":
        return run.word == "worker_died" and not run.is_final
    return run.state in ("planned", "started", "interrupted") and not run.is_final


def digest_of_log(log: Iterable[Recorded]) -> str:
    """Return the digest that a log leads to, folded from nothing: what live schedulers report."""
    board = Board()
    for recorded in log:
        board.follow(recorded)
    return board.digest()
