"""Reference log of DLSpec: an evaluation as one file with everything needed to repeat it.

The five resolved manifests, the request, each run's conditions and results, and the model's
answers. A repetition elsewhere can be compared with it.
"""

from typing import Literal

from pydantic import Field

from schemas.level import LevelField
from schemas.manifest import HardwareManifest, SoftwareManifest
from schemas.message import Message
from schemas.plan import Subject
from schemas.request import Evaluate
from schemas.values.identity import Token
from schemas.values.json_values import JsonObject


class ReferenceMachine(Message):
    """An agent of the evaluation, as manifests that a similar machine satisfies."""

    agent: Token
    hardware: HardwareManifest
    software: SoftwareManifest


class ReferenceRun(Message):
    """One run: its conditions and its results."""

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
    #: the run's row of each table; an estimate has its 95% interval in further columns
    conditions: JsonObject = Field(default_factory=dict)
    latency: JsonObject = Field(default_factory=dict)
    throughput: JsonObject = Field(default_factory=dict)
    #: sha256 of the features of every sample's first answer as canonical JSON; '' for none
    predictions_digest: str = ""


class ReferenceAnswer(Message):
    """The model's first answer to one sample."""

    run: Token
    sample: int
    features: tuple[JsonObject, ...] = ()


class ReferenceLog(Message):
    """An evaluation; `digest` is the sha256 of all other fields as canonical JSON."""

    kind: Literal["reference"] = "reference"
    version: Literal[1] = 1
    evaluation: Token
    measured_ns: int
    mlscope_version: str = ""
    request: Evaluate
    #: the resolved model, framework manifest, dataset, hardware and software
    subject: Subject
    machines: tuple[ReferenceMachine, ...]
    runs: tuple[ReferenceRun, ...]
    #: rows of the table `accuracy`, one for each session and metric
    accuracy: tuple[JsonObject, ...] = ()
    answers: tuple[ReferenceAnswer, ...] = ()
    digest: str = ""
