"""Spans of a run and facts of an evaluation, however many answers they take."""

from typing import Any

from mlscope.bus.bus import Bus
from mlscope.client.asking import ask_for, command_of
from mlscope.exchange.traces import Trace
from schemas.analysis import Flow, SpanRow, Spans
from schemas.request import ShowFlow
from schemas.trace import ShowSpans

MOST_SPANS = 1_000_000
"""Of one trace, unless more are asked for: each takes about a kilobyte of memory here."""

_ANSWER_S = 60.0


async def trace_of(bus: Bus, evaluation: str, run: str = "", limit: int = MOST_SPANS) -> Trace:
    """Ask over `bus` for the first `limit` spans of a `run` of `evaluation`, 0 is all.

    Without a name it is the run traced deepest. A trace that lacks spans `is_cut`. Raises
    CommandRefused, NotAnswering, Denied.
    """
    page = await _page(bus, evaluation, run)
    if run:
        chosen = next(traced for traced in page.runs if traced.run == run)
    else:
        chosen = max(page.runs, key=lambda traced: traced.level)
    if chosen.run != page.run:
        page = await _page(bus, evaluation, chosen.run)
    spans: list[SpanRow] = list(page.spans)
    while page.more and page.spans and not 0 < limit <= len(spans):
        last = page.spans[-1]
        page = await _page(bus, evaluation, chosen.run, (last.start_ns, last.span))
        spans += page.spans
    is_cut = page.more or 0 < limit < len(spans)
    return Trace(evaluation, chosen, spans[:limit] if limit else spans, is_cut)


async def flow_of(bus: Bus, evaluation: str) -> list[dict[str, Any]]:
    """Return the facts of an evaluation as JSON has them.

    Raises CommandRefused, NotAnswering, Denied.
    """
    facts: list[dict[str, Any]] = []
    has_more = True
    while has_more:
        command = command_of(ShowFlow, {"evaluation": evaluation, "offset": len(facts)})
        page = await ask_for(bus, command, Flow, timeout_s=_ANSWER_S)
        facts += page.facts
        has_more = page.more and bool(page.facts)
    return facts


async def _page(bus: Bus, evaluation: str, run: str, after: tuple[int, int] | None = None) -> Spans:
    fields: dict[str, Any] = {"evaluation": evaluation, "run": run}
    if after is not None:
        fields |= {"after_ns": after[0], "after_span": after[1]}
    return await ask_for(bus, command_of(ShowSpans, fields), Spans, timeout_s=_ANSWER_S)
