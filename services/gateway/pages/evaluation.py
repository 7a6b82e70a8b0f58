"""The page of one evaluation: state, request, runs, tables. Pure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mlscope.evaluation.fold import ENDED
from schemas.analysis import Tables
from schemas.status import EvaluationStatus, RunStatus
from services.gateway.pages.models import address_of
from services.gateway.pages.tables import TablesView, tables_view

RUN_HEADS = (
    "Run",
    "Scenario",
    "Batch",
    "Level",
    "Agent",
    "State",
    "Queries",
    "Failed",
    "Spans",
    "p50 so far",
    "p99 so far",
    "Notes",
)


@dataclass(frozen=True, slots=True)
class EvaluationView:
    """An evaluation's state and results; `note` says why tables are missing, if they are."""

    status: EvaluationStatus
    tables: TablesView
    note: str
    template: ClassVar[str] = "evaluation.html"
    run_heads: ClassVar[Sequence[str]] = RUN_HEADS

    @property
    def title(self) -> str:
        """The model and the evaluation's id."""
        return f"{self.status.model} {self.status.evaluation}".strip()

    @property
    def is_live(self) -> bool:
        """Whether its script keeps the page up to date."""
        return self.status.state not in ENDED

    @property
    def request(self) -> str:
        """The request as JSON, without what is left at its default; '' if it is not known."""
        if not self.status.request:
            return ""
        fields = self.status.request.model_dump(mode="json", exclude_defaults=True)
        return json.dumps(fields, indent=2)

    @property
    def model_address(self) -> str:
        """The address of its model in the catalog, '' for one that came with the request."""
        status = self.status
        if status.subject is None or (status.request and not isinstance(status.request.model, str)):
            return ""
        return address_of(status.subject.model)

    @property
    def framework(self) -> str:
        """The framework and the device, '' while none is chosen."""
        status = self.status
        return f"{status.framework} on {status.device}" if status.framework else ""

    @property
    def labels(self) -> str:
        """The labels as one text."""
        return ", ".join(f"{name}={value}" for name, value in self.status.labels.items())

    @staticmethod
    def notes_of(run: RunStatus) -> str:
        """Return what is to be said of a run, as one text."""
        return "; ".join(note for note in (run.cause, run.level_note, *run.caveats) if note)


def evaluation_view(status: EvaluationStatus, tables: Tables, note: str = "") -> EvaluationView:
    """Return the view of an evaluation.

    `status`: its state; `tables`: its results; `note`: why tables are missing, if they are.
    """
    return EvaluationView(status, tables_view(tables), note)
