"""Reference logs: made from an evaluation's results, and turned into a request again. Pure."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mlscope.manifests.digests import canonical_json
from schemas.agent import Announcement
from schemas.analysis import Prediction
from schemas.manifest import DatasetManifest, HardwareManifest, SoftwareManifest
from schemas.message import Message
from schemas.reference import ReferenceAnswer, ReferenceLog, ReferenceMachine, ReferenceRun
from schemas.request import Evaluate
from schemas.status import EvaluationStatus, RunStatus

Rows = Sequence[Mapping[str, Any]]

MOST_ANSWERS = 10_000
"""Most answers in a file; the digests cover all."""


class NotMeasured(Exception):
    """An evaluation has no results to repeat."""

    def __init__(self, evaluation: str, state: str) -> None:
        """Name the evaluation and its state."""
        self.evaluation, self.state = evaluation, state
        super().__init__(f"{evaluation} is {state}: only an analyzed evaluation can be exported")


class Altered(Exception):
    """A reference log does not match its digest."""

    def __init__(self, actual: str, stated: str) -> None:
        """Name the digest of the content and the one in the file."""
        self.actual, self.stated = actual, stated
        super().__init__(f"was altered: its digest is {actual[:16]}…, it says {stated[:16]}…")


def reference_log(
    status: EvaluationStatus,
    agents: Iterable[Announcement],
    tables: Mapping[str, Rows],
    predictions: Sequence[Prediction],
) -> ReferenceLog:
    """Return the reference log of an analyzed evaluation. Raises NotMeasured for any other.

    `status` has its request and plan, `agents` are the announcements of the cluster's agents,
    `tables` the rows of its analyses by table name, and `predictions` all answers of its runs.
    """
    if status.state != "analyzed" or status.request is None or status.subject is None:
        raise NotMeasured(status.evaluation, status.state)
    requested = status.request.dataset
    dataset = requested if isinstance(requested, DatasetManifest) else status.subject.dataset
    subject = status.subject.model_copy(update={"dataset": dataset})
    model = subject.manifest or subject.model
    request = status.request.model_copy(update={"model": model, "dataset": dataset, "key": ""})
    answers = first_answers(predictions)
    conditions = next(iter(tables.get("conditions", ())), {})
    log = ReferenceLog(
        evaluation=status.evaluation,
        measured_ns=status.requested_ns,
        mlscope_version=str(conditions.get("mlscope_version", "")),
        request=request,
        subject=subject,
        machines=tuple(machine_of(agent) for agent in agents if agent.agent in status.agents),
        runs=tuple(reference_run(run, tables, answers) for run in status.runs),
        accuracy=tuple(dict(row) for row in tables.get("accuracy", ())),
        answers=answers[:MOST_ANSWERS],
    )
    return log.model_copy(update={"digest": digest_of(log)})


def digest_of(log: ReferenceLog) -> str:
    """Return the sha256 of a log without its digest, canonical JSON, in hex."""
    return _digest(log.model_copy(update={"digest": ""}).model_dump(mode="json"))


def checked(log: ReferenceLog) -> ReferenceLog:
    """Return a log from a file once its digest is checked. Raises Altered."""
    actual = digest_of(log)
    if actual != log.digest:
        raise Altered(actual, log.digest)
    return log


def request_again(log: ReferenceLog, agents: Sequence[str] = (), **changes: Any) -> Evaluate:
    """Return the request that repeats a `log`, with the options that were in effect.

    It runs on any agent that fits, or on `agents`; those of the log may be of another cluster.
    With several frameworks, each has its own options again: those that were asked for are for all.
    `changes` are fields of the request with other values.
    """
    subject = log.subject
    labels = {**log.request.labels, "reproduces": log.evaluation}
    options = log.request.options if subject.manifest else subject.options
    fields = {"agents": tuple(agents), "options": options, "labels": labels, "key": ""}
    return log.request.model_copy(update={**fields, **changes})


def first_answers(predictions: Iterable[Prediction]) -> tuple[ReferenceAnswer, ...]:
    """Return each sample's first answer in each run, in the order of runs and samples."""
    first: dict[tuple[str, int], Prediction] = {}
    for prediction in predictions:
        earlier = first.get((prediction.run, prediction.sample))
        if earlier is None or prediction.query < earlier.query:
            first[prediction.run, prediction.sample] = prediction
    return tuple(
        ReferenceAnswer(run=run, sample=sample, features=first[run, sample].features)
        for run, sample in sorted(first)
    )


def machine_of(agent: Announcement) -> ReferenceMachine:
    """Return an agent's machine as a hardware and a software manifest that it satisfies."""
    machine = agent.hardware
    hardware = HardwareManifest(
        name=agent.agent,
        architecture=machine.architecture,
        cpu={"model": machine.cpu_model, "cores": machine.cores},
        accelerators=tuple(
            accelerator.model_dump(mode="json", include={"name", "memory_bytes", "interconnect"})
            for accelerator in machine.accelerators
        ),
        interconnect=machine.interconnect,
        memory_bytes=machine.memory_bytes,
    )
    packages = {"python": agent.python_version, "mlscope": agent.mlscope_version}
    packages |= {runtime.framework: runtime.version for runtime in agent.runtimes}
    software = SoftwareManifest(
        name=agent.agent,
        container=agent.image,
        packages={name: version for name, version in packages.items() if version},
    )
    return ReferenceMachine(agent=agent.agent, hardware=hardware, software=software)


def reference_run(
    run: RunStatus, tables: Mapping[str, Rows], answers: Iterable[ReferenceAnswer]
) -> ReferenceRun:
    """Return a `run` with its rows of the `tables`, and the digest of its own `answers`."""
    own_answers = [
        answer.model_dump(mode="json", exclude={"run"})
        for answer in answers
        if answer.run == run.run
    ]
    return ReferenceRun(
        run=run.run,
        session=run.session,
        agent=run.agent,
        scenario=run.scenario,
        level=run.level,
        batch_size=run.batch_size,
        state=run.state,
        answered=run.answered,
        failed_queries=run.failed_queries,
        caveats=run.caveats,
        conditions=_row(tables, "conditions", run.run),
        latency=_row(tables, "latency", run.run),
        throughput=_row(tables, "throughput", run.run),
        predictions_digest=_digest(own_answers) if own_answers else "",
    )


def _row(tables: Mapping[str, Rows], table: str, run: str) -> dict[str, Any]:
    return next((dict(row) for row in tables.get(table, ()) if row.get("run") == run), {})


def _digest(value: Any) -> str:
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def file_text(log: Message) -> str:
    """Return the text of a log's file: indented JSON."""
    return log.model_dump_json(indent=2) + "\n"
