"""Reading a run for drawing: its spans, its load, and what is missing of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlscope.counts import many
from schemas.batch import SpanKind
from schemas.trace import TraceGap, TraceOverview
from services.analyzer.building.table import format_time
from services.analyzer.errors import NoSuchRun
from services.analyzer.storage.session import Session, Sessions
from services.analyzer.traces.clocks import cluster_epoch_ns
from services.analyzer.traces.columns import (
    QUERY_WIRE,
    SAMPLE_WIRE,
    WIRE,
    Columns,
    joined,
    unpacked,
)
from services.analyzer.traces.prepared import MOST_CORRELATED, Stored
from services.analyzer.traces.resolutions import Prepared

MOST_SPANS = 16_000_000
"""The most spans of a run that are drawn; what is beyond is counted as unread."""
_PAGE_SPANS = 250_000
_MOST_QUERIES = 1_000_000
_LEAST_NS = -(2**63)
_CLOCKS_DIFFER_NS = 1_000_000
_MINUTE_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class TracedRun:
    """A run with spans, as the database has it, and the names of all of its evaluation."""

    evaluation: str
    row: Mapping[str, Any]
    runs: tuple[str, ...]

    @property
    def version(self) -> tuple[int, int]:
        """What changes when the run does: its key, and how many spans are stored."""
        return self.row["run_key"], self.row["stored"]


class TraceReader:
    """Reads runs in one session after another."""

    def __init__(self, database_url: str) -> None:
        """Connect to `database_url` at the first read."""
        self._sessions = Sessions(database_url, Path(__file__).with_name("traces.sql"))

    def run(self, evaluation: str, run: str) -> TracedRun:
        """Return a run by name; without one the run traced deepest.

        Raises NoSuchRun, DatabaseAway.
        """
        matching = [traced for traced in self.runs(evaluation) if run in ("", traced.row["run"])]
        if not matching:
            raise NoSuchRun(evaluation, run)
        return max(matching, key=lambda traced: traced.row["level"])

    def runs(self, evaluation: str) -> list[TracedRun]:
        """Return the runs of an evaluation that have spans. Raises DatabaseAway."""
        values = {"evaluation": evaluation}
        rows = self._sessions.read(lambda session: session.maps("traced_runs", values))
        names = tuple(row["run"] for row in rows)
        return [TracedRun(evaluation, row, names) for row in rows]

    def stored(self, traced: TracedRun, on_read: Callable[[int], None] = lambda _: None) -> Stored:
        """Return what is stored of a run's spans; `on_read` gets how many were read so far.

        Raises DatabaseAway.
        """
        key = _key(traced)

        def read(session: Session) -> Stored:
            names = session.maps("span_names", key)
            queries = session.maps("query_columns", key | {"limit": _MOST_QUERIES})[0]
            spans = _spans(session, key, on_read)
            has_samples = bool((spans["kind"] == SpanKind.SAMPLE).any())
            samples = session.maps("sample_columns", key)[0] if has_samples else {}
            units = session.maps("units", key) if has_samples else []
            return Stored(
                spans=spans,
                names={row["name"]: row["text"] for row in names},
                queries=unpacked(queries, QUERY_WIRE),
                samples=unpacked(samples, SAMPLE_WIRE),
                units={row["name"]: row["unit"] for row in units},
            )

        return self._sessions.read(read)

    def overview(self, traced: TracedRun, trace: Prepared) -> TraceOverview:
        """Return the description of a prepared run. Raises DatabaseAway."""
        row = traced.row
        unread = max(row["stored"] - MOST_SPANS, 0)
        caveats = [*row["caveats"], *_clock_caveats(row)]
        if unread:
            caveats.append(f"{many(unread, 'span')} are not drawn: only the first {MOST_SPANS}")
        if row["stored"] > MOST_CORRELATED:
            caveats.append(f"above {MOST_CORRELATED} spans, only parents that were captured show")
        fields = ("run", "attempt", "agent", "model", "framework", "device", "batch_size")
        return TraceOverview(
            evaluation=traced.evaluation,
            **{name: row[name] for name in fields},
            runs=traced.runs,
            origin_epoch_ns=cluster_epoch_ns(row),
            clock_offset_ns=row["clock_offset_ns"],
            clock_bound_ns=row["clock_bound_ns"],
            range_ns=trace.range_ns,
            spans=trace.spans,
            unread=unread,
            dropped=row["dropped_records"] + row["dropped_batches"],
            lanes=tuple(trace.lanes),
            gaps=self._gaps(traced, trace),
            caveats=tuple(caveats),
        )

    def waiting(self, traced: TracedRun, share: float) -> TraceOverview:
        """Return the description of a run of which a `share` is prepared."""
        fields = ("run", "attempt", "agent", "model", "framework", "device", "batch_size")
        return TraceOverview(
            evaluation=traced.evaluation,
            **{name: traced.row[name] for name in fields},
            runs=traced.runs,
            spans=traced.row["stored"],
            prepared_share=min(share, 0.99),
        )

    def attributes(self, traced: TracedRun, start_ns: int, span: int) -> tuple[int, str, int]:
        """Return the block, the attributes, a JSON text, and the layer of a `span`.

        The span of the run `traced` began at `start_ns`. Raises DatabaseAway.
        """
        values = _key(traced) | {"start_ns": start_ns, "span": span}
        rows = self._sessions.read(lambda session: session.maps("span_attributes", values))
        names = ("block", "attributes", "layer")
        return tuple(rows[0][name] for name in names) if rows else (-1, "", -1)

    def close(self) -> None:
        """Close the connection."""
        self._sessions.close()

    def _gaps(self, traced: TracedRun, trace: Prepared) -> tuple[TraceGap, ...]:
        """Return the stretches of time of batches that are announced but not stored."""
        key = _key(traced) | {"batches": traced.row["trace_batches"]}
        missing = traced.row["spans"] - traced.row["stored"]

        def read(session: Session) -> tuple[TraceGap, ...]:
            stretches = session.maps("missing_batches", key)
            gaps = []
            for stretch in stretches:
                before = session.maps("batch_range", key | {"batch": stretch["first"] - 1})[0]
                after = session.maps("batch_range", key | {"batch": stretch["last"] + 1})[0]
                first, last = trace.range_ns
                begin = first if before["end_ns"] is None else before["end_ns"]
                end = last if after["start_ns"] is None else after["start_ns"]
                batches = stretch["last"] - stretch["first"] + 1
                gaps.append(
                    TraceGap(
                        from_ns=min(begin, end),
                        to_ns=max(begin, end),
                        count=max(missing, 0) if len(stretches) == 1 else 0,
                        reason=f"{many(batches, 'batch')} of spans not stored",
                    )
                )
            return tuple(gaps)

        return self._sessions.read(read)


def _key(traced: TracedRun) -> dict[str, Any]:
    return {"run_key": traced.row["run_key"], "ts": traced.row["ts"]}


def _clock_caveats(row: Mapping[str, Any]) -> list[str]:
    """Return what to know of times of day, where the agent's clock differs from the cluster's."""
    offset_ns, bound_ns = row["clock_offset_ns"], row["clock_bound_ns"]
    if offset_ns is None or bound_ns is None or abs(offset_ns) <= max(bound_ns, _CLOCKS_DIFFER_NS):
        return []
    side = "behind" if offset_ns > 0 else "ahead of"
    size_ns = abs(offset_ns)
    size = f"{size_ns / 1e9:,.0f} s" if size_ns >= _MINUTE_NS else format_time(size_ns)
    text = (
        f"times of day are the cluster's: the agent's clock was {size} {side} it, "
        f"to within {format_time(bound_ns)}"
    )
    return [text]


def _spans(session: Session, key: Mapping[str, Any], on_read: Callable[[int], None]) -> Columns:
    """Return the columns of a run's spans by start, read in pages."""
    pages: list[Columns] = []
    after = {"after_ns": _LEAST_NS, "after_span": _LEAST_NS}
    total = 0
    while total < MOST_SPANS:
        limit = min(_PAGE_SPANS, MOST_SPANS - total)
        page = unpacked(session.maps("span_page", {**key, **after, "limit": limit})[0], WIRE)
        pages.append(page)
        count = len(page["span"])
        total += count
        on_read(total)
        if count < limit:
            break
        after = {"after_ns": int(page["start_ns"][-1]), "after_span": int(page["span"][-1])}
    return joined(pages)
