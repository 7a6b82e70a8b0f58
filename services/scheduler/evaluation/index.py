"""Every evaluation: the open ones in full, the ended ones as a bounded list of summaries.

Mutable, without I/O. A fact may come twice and by two ways, from the followed log or from one
evaluation's story: an evaluation takes only facts beyond its own sequence. The digest is a sum
over evaluations, so their order does not matter and an ended one can be forgotten.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from mlscope.bus.records import Recorded
from mlscope.evaluation.status import status_of
from schemas.encoding.codec import encode_body
from schemas.evaluation import EvaluationAnalyzed, EvaluationRequested
from schemas.people import THE_USER, Asker
from schemas.request import PURPOSE, ListEvaluations
from schemas.status import Catalog, EvaluationList
from services.scheduler.evaluation.digests import combined, digest_of_state
from services.scheduler.evaluation.ended import EndedEvaluations
from services.scheduler.evaluation.list_filters import filters_of, row_of, with_figures
from services.scheduler.evaluation.list_sizes import fitting, listable
from services.scheduler.evaluation.listing import Listing
from services.scheduler.evaluation.past_durations import PastDurations
from services.scheduler.evaluation.quotas import Quotas
from services.scheduler.evaluation.state import EvaluationState, evolve
from services.scheduler.placement.queues import QueuePosition, Queues

_MOST_REMEMBERED = 1024


@dataclass(slots=True)
class EvaluationIndex:
    """The evaluations that one scheduler knows."""

    #: URL of an evaluation's page, without its id
    pages: str = ""
    #: how many may be open before requests are refused as busy
    max_open: int = 10_000
    #: how many ended evaluations are listed; older ones are read from the log on request
    max_ended: int = 10_000
    open: dict[str, EvaluationState] = field(default_factory=dict)
    ended: EndedEvaluations = field(default_factory=EndedEvaluations)
    #: of the newest fact that came in the log's order
    sequence: int = 0
    _ended_digest: int = 0
    _digests: dict[str, str] = field(default_factory=dict)
    _queues: Queues = field(default_factory=Queues)
    _unfinished: dict[str, Counter[str]] = field(default_factory=dict)
    _loads: Counter[str] = field(default_factory=Counter)
    _listing: Listing = field(default_factory=Listing)
    quotas: Quotas = field(default_factory=Quotas)
    durations: PastDurations = field(default_factory=PastDurations)
    #: the time by which quotas count what is requested from now on; the log's own before
    now_ns: Callable[[], int] | None = None
    #: facts that were passed over and not buried yet, with the reason
    unfolded: list[tuple[Recorded, Exception]] = field(default_factory=list)
    _passed_over: OrderedDict[int, None] = field(default_factory=OrderedDict)

    def take(self, recorded: Recorded) -> EvaluationState | None:
        """Fold a fact; return its evaluation's state when the fact was new to it.

        A fact that cannot be folded is passed over: it must not end the service at each start.
        """
        try:
            return self._fold(recorded)
        except Exception as error:  # noqa: BLE001 (whatever a fact holds, the others count)
            if recorded.sequence not in self._passed_over:
                self._passed_over[recorded.sequence] = None
                self.unfolded.append((recorded, error))
            if len(self._passed_over) > _MOST_REMEMBERED:
                self._passed_over.popitem(last=False)
            return None

    def _fold(self, recorded: Recorded) -> EvaluationState | None:
        name = str(getattr(recorded.fact, "evaluation", ""))
        before = self.open.get(name)
        if before is None:
            if isinstance(recorded.fact, EvaluationAnalyzed):
                self._complete_cancelled(name, recorded.fact)
            if name in self.ended or not isinstance(recorded.fact, EvaluationRequested):
                return None
            before = EvaluationState()
        after = evolve(before, recorded)
        if after is before:
            return None
        self._digests.pop(name, None)
        self._listing.put(name, row_of(after))
        with suppress(Exception):  # an estimate that fails must not cost the fact
            self.durations.take(recorded, after)
        if after.requested_by and not before.is_known:
            at_ns = recorded.at_ns if self.now_ns is None else self.now_ns()
            size_bytes = len(encode_body(after.request)) if after.request else 0
            self.quotas.request(after.requested_by, name, at_ns, size_bytes)
        if after.is_ended:
            self.quotas.end(after.requested_by, name)
            self.open.pop(name, None)
            self.ended[name] = listable(status_of(after, f"{self.pages}{name}", runs=False))
            self._ended_digest = combined(self._ended_digest, digest_of_state(after))
            if len(self.ended) > self.max_ended:
                self._listing.drop(self.ended.forget_first())
        else:
            self.open[name] = after
        self._count_loads(name, after)
        return after

    def _complete_cancelled(self, name: str, fact: EvaluationAnalyzed) -> None:
        """Take the tables of a cancelled evaluation into its summary."""
        status = self.ended.get(name)
        if status is not None and status.state == "cancelled":
            changes = {"tables": fact.tables, "headlines": fact.headlines}
            self.ended[name] = listable(status.model_copy(update=changes))
            self._listing.change(name, lambda row: with_figures(row, fact.headlines))

    def follow(self, recorded: Recorded) -> None:
        """Fold a fact that comes in the log's own order."""
        self.take(recorded)
        self.sequence = max(self.sequence, recorded.sequence)

    def _count_loads(self, name: str, state: EvaluationState) -> None:
        """Count an evaluation's unfinished runs by agent, and queue it there."""
        self._loads -= self._unfinished.pop(name, Counter())
        if not state.is_ended:
            unfinished = Counter(run.agent for run in state.runs.values() if run.is_unfinished)
            self._loads += unfinished
            if unfinished:
                self._unfinished[name] = unfinished
        self._queues.put(name, self._positions(name, state))

    def _positions(self, name: str, state: EvaluationState) -> dict[str, QueuePosition]:
        busy = {run.agent for run in state.runs.values() if run.is_under_way}
        return {
            agent: (agent not in busy, state.requested_ns, name)
            for agent in self._unfinished.get(name, ())
        }

    def wait_for(self, name: str, agents: Iterable[str]) -> None:
        """Queue an open evaluation also for agents that its plan does not name.

        They may replace agents of the plan. The evaluation's position follows from its request,
        until its next fact.
        """
        state = self.open.get(name)
        if state is not None:
            replacements = dict.fromkeys(agents, (True, state.requested_ns, name))
            self._queues.put(name, replacements | self._positions(name, state))

    def digest(self) -> str:
        """Return the digest of every evaluation ever folded, in hex."""
        total = self._ended_digest
        for name, state in self.open.items():
            if name not in self._digests:
                self._digests[name] = digest_of_state(state)
            total = combined(total, self._digests[name])
        return f"{total:064x}"

    def agents_of(self, name: str) -> frozenset[str]:
        """Return the agents that an evaluation has unfinished runs on, or waits for."""
        return self._queues.agents_of(name)

    def turn(self, agent: str) -> str:
        """Return the evaluation whose turn it is on an agent; '' when none waits for it.

        One with runs under way there comes first, then the one that was requested first.
        """
        return self._queues.first(agent)

    def turns(self) -> dict[str, str]:
        """Return the evaluation whose turn it is, by agent."""
        return self._queues.firsts()

    def loads(self) -> Mapping[str, int]:
        """Return the number of unfinished runs, by agent."""
        return dict(self._loads)

    def listed(
        self, command: ListEvaluations, catalog: Catalog | None = None, asker: Asker = THE_USER
    ) -> EvaluationList:
        """Return the evaluations that the list `command` asks for, and how many match in all.

        Only those that `asker` may see count. Constraints on the system are checked against the
        agents of `catalog`, as they are now. Raises RequestRefused.
        """
        filters = filters_of(command, catalog or Catalog())
        if not asker.is_owner:
            filters.append(lambda row: asker.may_see(row.requested_by, is_private=row.is_private))
        names = self._listing.matching(
            command.model.partition(":")[0].strip(),
            command.state,
            filters,
            command.sort,
            predictions=command.predictions or PURPOSE in command.labels,
        )
        statuses = [
            status_of(self.open[name], f"{self.pages}{name}", runs=False)
            if name in self.open
            else self.ended[name]
            for name in names[command.offset : command.offset + command.limit]
        ]
        return EvaluationList(evaluations=tuple(fitting(statuses)), total=len(names))


def digest_of_log(log: Iterable[Recorded]) -> str:
    """Return the digest that a whole log leads to: what a live scheduler reports."""
    index = EvaluationIndex()
    for recorded in log:
        index.follow(recorded)
    return index.digest()
