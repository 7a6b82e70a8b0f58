"""Tables: what the analyzer makes of an evaluation."""

from typing import Any, Literal

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


class Tables(Message):
    """The answer to `tables`; `total_rows` by table are all there are, shown here or not.

    A table with fewer is asked for again with `offset`.
    """

    evaluation: Token
    tables: tuple[Table, ...]
    total_rows: dict[str, int] = Field(default_factory=dict)


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
