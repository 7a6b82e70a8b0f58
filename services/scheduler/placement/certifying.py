"""Whether planned loads can certify the percentile that they report, before they start. Pure."""

import math
from collections.abc import Mapping, Sequence
from itertools import groupby

from mlscope.statistics import minimum_count
from schemas.plan import RunPlan, SessionPlan
from schemas.request import Blocks

_CLOSED_LOOP = "online"


def certification_notes(
    sessions: Sequence[SessionPlan], rule: Blocks, offered_hz: Mapping[tuple[int, int], float]
) -> tuple[str, ...]:
    """Return a note for each load of `sessions` whose percentile needs more queries than it has.

    `rule` is their stop rule. `offered_hz` is the rate of each open loop in queries per second, by
    group and batch size. An open loop reports the 99th percentile, `online` the 90th. The runs of a
    load take turns, so that each has a share of its budget.
    """
    notes: dict[str, None] = {}
    for session in sessions:
        if session.variant:
            continue
        for _, members in groupby(session.runs, lambda run: run.group):
            runs = list(members)
            run = min(runs, key=lambda run: run.level)
            rate_hz = offered_hz.get((run.group, session.batch_size), 0.0)
            note = _note(run, rule, len(runs), rate_hz)
            notes |= (
                {f"{runs[0].scenario}, batch {session.batch_size}: {note}": None} if note else {}
            )
    return tuple(notes)


def _note(run: RunPlan, rule: Blocks, shares: int, rate_hz: float) -> str:
    """Return why the result of a `run` will not be certified, '' where it can be."""
    rule = run.blocks or rule
    value = run.parameters.get("rate_hz")
    set_hz = float(value) if isinstance(value, int | float) else 0.0
    is_set = min(rate_hz, set_hz) > 0
    # Random arrivals have the rate of the parameter on average only.
    rate_hz = set_hz if is_set else float(f"{rate_hz:.3g}")
    is_open = rate_hz > 0
    if not is_open and run.scenario != _CLOSED_LOOP:
        return ""
    name, p = ("99th percentile", 0.99) if is_open else ("90th percentile", 0.9)
    needed, goes_on = minimum_count(p), bool(rule.interval or rule.budget_s)
    most_queries = run.queries * (rule.most if goes_on else rule.least)
    budget_s = rule.budget_s / shares
    in_budget = rate_hz * budget_s if is_open and budget_s else math.inf
    if min(most_queries, max(in_budget, run.queries * rule.least)) >= needed:
        return ""
    head = f"its {name} needs {needed} answered queries"
    if most_queries < needed or not is_open:
        return f"{head}, and it issues {most_queries} at most"
    share = f", its share of {rule.budget_s:g} s" if shares > 1 else ""
    return (
        f"{head}, which take {needed / rate_hz:.3g} s at {rate_hz:g}/s; its budget is "
        f"{budget_s:g} s{share}: raise {'rate_hz' if is_set else 'its rate'} or budget_s"
    )
