"""The page of a trace: which run is shown, which others there are, its longest spans. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

from mlscope.evaluation.fold import ENDED
from mlscope.exchange.formats import SPAN_FORMATS, SpanFormat
from schemas.status import EvaluationStatus, RunStatus
from schemas.trace import ANSWERED, QUERY_KIND, QUERY_STATUSES, SpanColumn, TraceLane

LONG_COLUMNS: tuple[SpanColumn, ...] = (
    "lane",
    "start",
    "duration",
    "name",
    "id",
    "count",
    "kind",
    "query",
)
"""What the tables of the longest spans need of each span."""
MOST_OF_A_LEVEL = 20
_OPEN = ("planned", "started")


class LongSpan(NamedTuple):
    """One span of a table: its id is that of the timeline's `sel`."""

    id: int
    name: str
    lane: str
    start_ns: float
    duration_ns: float


class LevelSpans(NamedTuple):
    """The longest spans of a level, longest first."""

    level: str
    spans: Sequence[LongSpan]


@dataclass(frozen=True, slots=True)
class TraceView:
    """One run of an evaluation on a timeline; `run` is None where there is none to show."""

    status: EvaluationStatus
    run: RunStatus | None
    asked_run: str
    #: the longest spans where they are shown in place of the timeline
    levels: Sequence[LevelSpans] | None = None
    trouble: str = ""
    template: ClassVar[str] = "trace.html"

    @property
    def title(self) -> str:
        """The model, the run and the evaluation's id."""
        run = self.run.run if self.run else ""
        return " ".join(part for part in ("Trace", self.status.model, run) if part)

    @property
    def formats(self) -> Iterable[tuple[str, SpanFormat]]:
        """The formats in which the run can be downloaded, by name."""
        return SPAN_FORMATS.items()

    @property
    def is_ongoing(self) -> bool:
        """Whether the evaluation has not ended, so that other runs may be measured yet."""
        return self.status.state not in ENDED

    @property
    def is_live(self) -> bool:
        """Whether the run still brings spans; a run that ended before others is stored."""
        is_open = self.run is None or self.run.state in _OPEN
        return self.is_ongoing and is_open

    @property
    def note(self) -> str:
        """What is wrong with what was asked for, '' if nothing."""
        if self.trouble:
            return self.trouble
        if self.asked_run and (self.run is None or self.run.run != self.asked_run):
            return f"This evaluation has no run {self.asked_run}; choose one of the list."
        return ""

    def with_levels(self, levels: Sequence[LevelSpans], trouble: str = "") -> "TraceView":
        """Return the view with tables of `levels`, or the `trouble` that left them out."""
        return replace(self, levels=levels, trouble=trouble)


def longest_by_level(
    lanes: Sequence[TraceLane], columns: Mapping[str, Sequence[Any]]
) -> list[LevelSpans]:
    """Return the longest spans of each level, in the order of `lanes`.

    `columns` are those of `LONG_COLUMNS`; rows that stand for several spans are left out, and so
    are counters.
    """
    by_number = {lane.lane: lane for lane in lanes if lane.group != "counter"}
    levels: dict[str, list[LongSpan]] = {lane.level: [] for lane in by_number.values()}
    rows = zip(*(columns[name] for name in LONG_COLUMNS), strict=True)
    for number, start, duration, name, id_, count, kind, query in rows:
        if count == 1 and (lane := by_number.get(number)):
            title = name
            if kind == QUERY_KIND and name in QUERY_STATUSES:
                title = f"query {query}" if name == ANSWERED else f"query {query}, {name}"
            levels[lane.level].append(LongSpan(id_, title, lane.title, start, duration))
    return [
        LevelSpans(level, sorted(spans, key=lambda span: -span.duration_ns)[:MOST_OF_A_LEVEL])
        for level, spans in levels.items()
        if spans
    ]


def trace_view(status: EvaluationStatus, asked_run: str) -> TraceView:
    """Return the view of the run `asked_run`, else of a measured one, else of most spans.

    `status` is the evaluation's; a run that does not exist is said so beside the list of runs.
    """
    named = [run for run in status.runs if run.run == asked_run]
    measured = [run for run in status.runs if run.state == "started"]
    deepest = sorted(status.runs, key=lambda run: (run.spans, run.level), reverse=True)
    is_first = status.state not in ENDED and not any(run.spans for run in status.runs)
    unasked = measured or (list(status.runs) if is_first else deepest)
    shown = named or ([] if asked_run else unasked)
    return TraceView(status, shown[0] if shown else None, asked_run)
