"""Results of an evaluation: tables, spans, facts and predictions."""

from typing import Any, Literal, NamedTuple

from pydantic import Field

from schemas.message import Fact, Message
from schemas.values.identity import Token


class Column(Message):
    """One column of a table: type, unit (UCUM-like: `ns`, `1/s`, `1`) and description."""

    name: str
    type: Literal["int", "float", "text", "bool"]
    unit: str = ""
    description: str = ""


class Table(Message):
    """Result of one analysis: typed columns, rows, a verdict in one sentence, and caveats."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    verdict: str = ""
    caveats: tuple[str, ...] = ()
    #: `A1` to `A15` for the papers' analyses; '' for others
    id: str = ""
    #: a Vega-Lite 5 specification without data whose fields are columns; None without a chart
    chart: dict[str, Any] | None = None
    #: where its formula comes from; '' where it is not said
    source: str = ""

    def records(self) -> list[dict[str, Any]]:
        """Return each row as a map from a column's name to its value."""
        names = [column.name for column in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self.rows]


class Tables(Message):
    """Answer to `tables`. `total_rows` counts all rows of each table, not only those shown.

    A further request with `offset` returns the remaining rows.
    """

    evaluation: Token
    tables: tuple[Table, ...]
    total_rows: dict[str, int] = Field(default_factory=dict)


Statistic = Literal["trimmed_mean", "median", "p99"]
"""The statistics of latency that a scenario's result may name."""


class Estimate(Message):
    """An estimated value and the ends of its 95% interval, None where unknown."""

    value: float
    low: float | None = None
    high: float | None = None


class Headline(Message):
    """The main figures of one load: those of its completed run that was traced least.

    `latency_ns` is the statistic that the scenario's result names; a figure without a value is
    None. Two loads are alike if agent, scenario, parameters and batch size are equal.
    """

    run: Token
    agent: str = ""
    scenario: str
    #: the scenario's parameters as JSON, keys sorted
    parameters: str = "{}"
    batch_size: int = 1
    statistic: Statistic = "trimmed_mean"
    latency_ns: Estimate | None = None
    samples_per_s: Estimate | None = None
    #: queries/s that were due, of an open loop
    offered_per_s: float | None = None
    #: 90th percentile of latency; None for a single query, and before release 0.2
    p90_ns: Estimate | None = None
    #: queries answered; 0 where it is not known
    queries: int = 0
    #: whether its run has a caveat about noise
    is_noisy: bool = False
    #: the framework of its run; '' from an older analyzer
    framework: str = ""


class TracedRun(Message):
    """A run with spans: its load and system, and the epoch of its clock's origin (0 unknown)."""

    run: Token
    attempt: int
    agent: str = ""
    model: str = ""
    framework: str = ""
    device: str = ""
    batch_size: int = 1
    level: int = 0
    spans: int = 0
    epoch_ns: int = 0
    #: the most by which the cluster's time of that origin is wrong; None not measured
    clock_bound_ns: int | None = None


class SpanRow(NamedTuple):
    """One span with its position in the tree; times are ns from its run's origin.

    `parent` and `layer` are ids of spans, None unknown; `kind` is a SpanKind; `correlation` is -1
    without one; `method` says how the parent was found; `attributes` is a JSON text, '' none.
    """

    span: int
    parent: int | None
    layer: int | None
    level: int
    name: str
    start_ns: int
    duration_ns: int
    thread: int
    query: int
    block: int
    kind: int
    correlation: int
    method: str
    attributes: str


class Spans(Message):
    """Answer to `spans`. `runs` are all runs that have spans; `more` is true if spans follow."""

    evaluation: Token
    runs: tuple[TracedRun, ...] = ()
    run: str = ""
    spans: tuple[SpanRow, ...] = ()
    more: bool = False


class Flow(Message):
    """Answer to `flow`: envelopes as maps, with their data. `more` is true if facts follow."""

    evaluation: Token
    facts: tuple[dict[str, Any], ...] = ()
    more: bool = False


class Prediction(Message):
    """A model's answer to one sample, or a different answer to the same sample later."""

    run: Token
    query: int
    sample: int
    name: str = ""
    #: results of the model's last step, best first; `left_out` marks those too large to keep
    features: tuple[dict[str, Any], ...] = ()
    #: the dataset's ground truth
    truth: dict[str, Any] = Field(default_factory=dict)


class FailedQuery(Message):
    """A query in which one or all samples have no answer, and the error."""

    run: Token
    query: int
    error: str


class Predictions(Message):
    """Answer to `predictions`. `total` counts all; `offset` in a request returns further ones."""

    evaluation: Token
    predictions: tuple[Prediction, ...] = ()
    total: int = 0
    #: the first failed queries of the same runs
    failed: tuple[FailedQuery, ...] = ()


class Compared(Message):
    """Answer to `compare`: tables over all samples and by sample, for each output.

    For figures, one table for each comparison of these evaluations and the `others`.
    """

    first: Token
    second: Token
    first_run: str
    second_run: str
    tables: tuple[Table, ...]
    others: tuple[Token, ...] = ()


class AnalysisCompleted(Fact):
    """The tables are stored. Published by the analyzer."""

    entity = "analysis"
    happened = "completed"
    evaluation: Token
    tables: tuple[str, ...]
    digest: str = ""
    headlines: tuple[Headline, ...] = ()


class AnalysisFailed(Fact):
    """The evaluation could not be analyzed. Published by the analyzer."""

    entity = "analysis"
    happened = "failed"
    evaluation: Token
    cause: str
