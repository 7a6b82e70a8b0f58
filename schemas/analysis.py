"""Tables: what the analyzer makes of an evaluation."""

from typing import Any, Literal, NamedTuple

from pydantic import Field

from schemas.identity import Token
from schemas.message import Fact, Message


class Column(Message):
    """One column: its unit (UCUM-like: `ns`, `1/s`, `1`) and one sentence."""

    name: str
    type: Literal["int", "float", "text", "bool"]
    unit: str = ""
    description: str = ""


class Table(Message):
    """One analysis: typed columns, rows, the verdict in one sentence and its caveats."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    verdict: str = ""
    caveats: tuple[str, ...] = ()
    #: `A1` to `A15` of the papers' analyses; '' of others
    id: str = ""
    #: a Vega-Lite 5 specification without data, its fields are columns; None where there is none
    chart: dict[str, Any] | None = None


class Tables(Message):
    """The answer to `tables`; `total_rows` by table are all there are, shown here or not.

    A table with fewer is asked for again with `offset`.
    """

    evaluation: Token
    tables: tuple[Table, ...]
    total_rows: dict[str, int] = Field(default_factory=dict)


class TracedRun(Message):
    """A run that has spans: what it is of, and when its clock's origin was (0 unknown)."""

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


class SpanRow(NamedTuple):
    """One span with its place in the tree; stamps are ns from its run's origin.

    `parent` and `layer` are spans, as far as known; `kind` is a SpanKind; `correlation` -1 none;
    `method` says how the parent is known; `attributes` is a JSON text, '' none.
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
    """The answer to `spans`; `runs` are all that have some. Without `more` these were the last."""

    evaluation: Token
    runs: tuple[TracedRun, ...] = ()
    run: str = ""
    spans: tuple[SpanRow, ...] = ()
    more: bool = False


class Flow(Message):
    """The answer to `flow`: envelopes as maps, their data in it. Without `more` these were all."""

    evaluation: Token
    facts: tuple[dict[str, Any], ...] = ()
    more: bool = False


class Prediction(Message):
    """The answer to one sample; of a sample that came again, an answer that differed."""

    run: Token
    query: int
    sample: int
    name: str = ""
    #: as the model's last step made them, best first; what was too large says so in `left_out`
    features: tuple[dict[str, Any], ...] = ()
    #: what the dataset says is right
    truth: dict[str, Any] = Field(default_factory=dict)


class FailedQuery(Message):
    """A query of which one sample or all have no answer, and why."""

    run: Token
    query: int
    error: str


class Predictions(Message):
    """The answer to `predictions`; `total` are all there are, asked for again with `offset`."""

    evaluation: Token
    predictions: tuple[Prediction, ...] = ()
    total: int = 0
    #: the first queries that failed, of the same runs
    failed: tuple[FailedQuery, ...] = ()


class Compared(Message):
    """The answer to `compare`: over all samples, and sample by sample, for each output.

    Of figures: a table each comparison of these evaluations and the `others`.
    """

    first: Token
    second: Token
    first_run: str
    second_run: str
    tables: tuple[Table, ...]
    others: tuple[Token, ...] = ()


class AnalysisCompleted(Fact):
    """The tables are stored. Said by the analyzer."""

    entity = "analysis"
    happened = "completed"
    evaluation: Token
    tables: tuple[str, ...]
    digest: str = ""


class AnalysisFailed(Fact):
    """No tables can be made of this evaluation. Said by the analyzer."""

    entity = "analysis"
    happened = "failed"
    evaluation: Token
    cause: str
