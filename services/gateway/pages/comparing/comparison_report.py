"""The report of a comparison: its page as a document of its own, and the command for it. Pure."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from schemas.request import Compare
from schemas.status import EvaluationStatus
from services.gateway.pages.comparing.compare import CompareView, compare_view, evaluations_of

MOST_ROWS = 60
"""Rows of a table that the document shows; the command that it names prints all."""


@dataclass(frozen=True, slots=True)
class ComparisonReport:
    """A comparison, each table's source, the command that repeats it, and the document's frame.

    `content_rules` are a browser's for the document, also where it was mailed and comes as a file.
    """

    comparison: CompareView
    sources: Sequence[tuple[str, str]]
    command_line: str
    styles: str
    content_rules: str
    version: str
    made_at: str
    template: ClassVar[str] = "comparison_report.html"

    @property
    def title(self) -> str:
        """The document's title."""
        return f"{self.comparison.title}: report"


def comparison_report(
    command: Compare,
    statuses: Sequence[EvaluationStatus],
    frame: Mapping[str, str],
    **further: Any,
) -> ComparisonReport:
    """Return the report of what a `command` compared.

    `statuses` are its evaluations in their order; `frame` are the view's styles, content rules,
    version and date; `further` are the other fields of `compare_view`.
    """
    sources = [(table.title, table.source) for table in further["compared"]]
    return ComparisonReport(
        comparison=compare_view(statuses, {}, **further),
        sources=[(title, source) for title, source in sources if source],
        command_line=command_line_of(command),
        **frame,
    )


def command_line_of(command: Compare) -> str:
    """Return the words of `mlscope compare` that ask for the same figures."""
    words = ["mlscope", "compare", *evaluations_of(command), "--figures"]
    for agent, dollars in command.prices.items():
        words += ["--price", f"{agent}={dollars:g}"]
    latency_ns = command.most_latency_ns
    limits = {
        "--latency-ms": None if latency_ns is None else latency_ns / 1e6,
        "--cost": command.most_cost,
        "--accuracy": command.least_accuracy,
    }
    for option, limit in limits.items():
        words += [] if limit is None else [option, f"{limit:g}"]
    return shlex.join(words)
