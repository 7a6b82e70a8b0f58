"""The reference log of DLSpec: a measured evaluation as one file with all it takes to repeat it.

The five manifests as they were resolved, the request, each run's conditions and results, and what
the model answered. Whoever runs it again elsewhere can say what differs.
"""

from typing import Any, Literal

from pydantic import Field

from schemas.identity import Token
from schemas.level import LevelField
from schemas.manifest import HardwareManifest, SoftwareManifest
from schemas.message import Message
from schemas.plan import Subject
from schemas.request import Evaluate


class ReferenceMachine(Message):
    """An agent that took part, as the manifests that a machine like it would fit."""

    agent: Token
    hardware: HardwareManifest
    software: SoftwareManifest


class ReferenceRun(Message):
    """One run: under which conditions it was measured, and what came out."""

    run: Token
    session: Token
    agent: Token
    scenario: str
    level: LevelField
    batch_size: int
    state: str
    answered: int = 0
    failed_queries: int = 0
    caveats: tuple[str, ...] = ()
    #: the row of each table, by the table's name; an estimate has its interval at 95 % beside it
    conditions: dict[str, Any] = Field(default_factory=dict)
    latency: dict[str, Any] = Field(default_factory=dict)
    throughput: dict[str, Any] = Field(default_factory=dict)
    #: sha256 of the features of every sample's first answer, canonical JSON; '' for none
    predictions_digest: str = ""


class ReferenceAnswer(Message):
    """What the model answered to one sample, the first time it came."""

    run: Token
    sample: int
    features: tuple[dict[str, Any], ...] = ()


class ReferenceLog(Message):
    """A whole evaluation; `digest` is the sha256 of everything else, canonical JSON."""

    kind: Literal["reference"] = "reference"
    version: Literal[1] = 1
    evaluation: Token
    measured_ns: int
    mlscope_version: str = ""
    request: Evaluate
    #: model, framework manifest, dataset, hardware and software as they were resolved
    subject: Subject
    machines: tuple[ReferenceMachine, ...]
    runs: tuple[ReferenceRun, ...]
    #: the rows of the table of that name, each of a session and a metric
    accuracy: tuple[dict[str, Any], ...] = ()
    answers: tuple[ReferenceAnswer, ...] = ()
    digest: str = ""
