"""How far a remote load goes on: the stop rule, applied while its answers come. Pure.

A load that goes on is one arrival process without a pause: its scenario's own for more queries,
whose first due times are the same. To the rule, each `queries` of it are a block.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mlscope.counts import many
from mlscope.load import Load, LoadError
from mlscope.load.precision import open_loop_shortfall
from mlscope.load.stopping import OVERLOAD, stop_caveat, stop_reason
from schemas.plan import RunPlan, WorkOrder
from schemas.request import Blocks
from services.scheduler.placement.planning import MAX_REMOTE_QUERIES, MAX_REMOTE_SAMPLES
from services.scheduler.remote_load.issued import LoadProgress, LoadRecord
from services.scheduler.remote_load.query_status import ANSWERED

_LEAST_BEHIND_S, _SHARE_BEHIND = 0.5, 0.2
"""How far answers may end after the budget: reports of them are a quarter of a second late."""


class Continuation:
    """Says how many queries of a load may be issued, and what ended it.

    The load may go on past the rule's least blocks once a query was answered, and as long as the
    queries that wait would be answered within the budget, one after the other. It is over as soon
    as its result is known, in the middle of a block too.
    """

    def __init__(self, load: Load, rule: Blocks, block_queries: int) -> None:
        """Issue at most a `load` under a stop `rule` with blocks of `block_queries`."""
        self.load, self.rule = load, rule
        self._queries = load.queries
        self._block_queries = block_queries
        self._least = min(rule.least * block_queries, load.queries)
        self._answered_blocks = 0
        self._is_known = False

    @classmethod
    def once(cls, load: Load) -> Self:
        """Return that of a `load` that is issued as it is."""
        return cls(load, Blocks(), load.queries)

    @property
    def limit(self) -> int:
        """The number of queries that may be issued before any answer."""
        return self._least

    def allowance(self, progress: LoadProgress, elapsed_s: float) -> int:
        """Return how many queries may be issued, with the answers `elapsed_s` after the start.

        A number below that of the issued ones of `progress` ends the load.
        """
        blocks = progress.answered_first // self._block_queries
        if blocks > self._answered_blocks:
            self._answered_blocks = blocks
            medians, missing = self._result(progress.first(blocks * self._block_queries))
            self._is_known |= stop_reason(self.rule, medians, 0.0, missing) == "interval"
        if self._is_known:
            return 0
        if not self.rule.budget_s:
            return self._queries
        service_ns = progress.load.service_ns
        is_served = service_ns >= 0
        if not is_served.any():
            return self._least
        waiting_s = progress.waiting * float(service_ns[is_served].mean()) * 1e-9
        behind_s = max(_LEAST_BEHIND_S, _SHARE_BEHIND * self.rule.budget_s)
        keeps_up = elapsed_s + waiting_s <= self.rule.budget_s + behind_s
        return self._queries if keeps_up else self._least

    def ending(self, load: LoadRecord) -> tuple[str, str]:
        """Return what ended a `load` (see `Conditions.blocks_ended`), and a caveat, '' for none."""
        medians, missing = self._result(load)
        if self._is_known:
            reason = "interval"
        elif load.queries < self._queries:
            reason = OVERLOAD
        else:
            reason = stop_reason(self.rule, medians, self.rule.budget_s, missing)
        extent = many(load.queries, "query")
        return reason, stop_caveat(self.rule, medians, reason, missing, extent)

    def _result(self, load: LoadRecord) -> tuple[list[float], str]:
        """Return the blocks' medians of service times, and what the result of a `load` lacks."""
        is_answered = load.status == ANSWERED
        blocks = np.flatnonzero(is_answered) // self._block_queries
        service_ns = load.service_ns[is_answered]
        medians = [float(np.median(service_ns[blocks == block])) for block in np.unique(blocks)]
        if self.rule.of != "result":
            return medians, ""
        latency_ns = (load.ended_ns - load.due_ns)[is_answered]
        return medians, open_loop_shortfall(latency_ns, blocks, self.rule.interval)


def continuation_of(
    order: WorkOrder, plan: RunPlan, load: Load, longer: Callable[[int], Load]
) -> Continuation:
    """Return the continuation of a run's load, which is as long as its stop rule may want.

    `plan` is the run's, in an `order`; `load` is its load and `longer` makes that of another number
    of queries. The samples of the first block are those of every block. A scenario whose longer
    load does not begin like the shorter one is issued once.
    """
    rule, size = _rule_of(order, plan), load.batch_size
    limit = min(MAX_REMOTE_QUERIES, MAX_REMOTE_SAMPLES // size) // load.queries
    least = load.queries * rule.least
    most_queries = load.queries * max(rule.least, min(rule.most, limit))
    if rule.interval == 0 and not rule.budget_s:
        most_queries = least
    due_ns = _continued_due_ns(load, longer, most_queries)
    if due_ns is None:
        once = rule.model_copy(update={"least": 1, "most": 1})
        return Continuation(load, once, load.queries)
    if rule.budget_s:
        in_budget = int(np.searchsorted(due_ns, int(rule.budget_s * 1e9)))
        due_ns = due_ns[: max(least, in_budget)]
    samples = np.resize(load.sample_indices, (len(due_ns), size))
    issued = replace(load, due_ns=due_ns, sample_indices=samples)
    return Continuation(issued, rule, load.queries)


def _rule_of(order: WorkOrder, plan: RunPlan) -> Blocks:
    """Return a run's stop rule; its budget is its share of that of its group, within its time-out.

    Half of the time-out is for answers that come late.
    """
    rule = plan.blocks or order.subject.blocks
    if rule.interval == 0 and not rule.budget_s:
        return rule
    runs = sum(run.group == plan.group for run in order.session.runs)
    budget_s = min((rule.budget_s or math.inf) / runs, plan.timeout_s / 2)
    return rule.model_copy(update={"budget_s": budget_s})


def _continued_due_ns(
    load: Load, longer: Callable[[int], Load], queries: int
) -> NDArray[np.int64] | None:
    """Return the due times of a `load` continued to `queries`; None where it can't be continued."""
    if queries <= load.queries:
        return load.due_ns
    try:
        due_ns = longer(queries).due_ns
    except LoadError:
        return None
    if due_ns is None or load.due_ns is None:
        return None
    return due_ns if np.array_equal(due_ns[: load.queries], load.due_ns) else None
