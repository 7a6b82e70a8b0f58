"""From what is known of an evaluation to its reference log, and from that to a request. Pure."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from schemas.agent import Announcement
from schemas.analysis import Prediction
from schemas.manifest import DatasetManifest, HardwareManifest, SoftwareManifest
from schemas.message import Message
from schemas.reference import ReferenceAnswer, ReferenceLog, ReferenceMachine, ReferenceRun
from schemas.request import Evaluate
from schemas.status import EvaluationStatus, RunStatus

Rows = Sequence[Mapping[str, Any]]

MOST_ANSWERS = 10_000
"""Answers that a file holds; the digests are of all."""


class NotMeasured(Exception):
    """An evaluation has nothing that could be repeated."""

    def __init__(self, evaluation: str, state: str) -> None:
        """Name the evaluation and how far it came."""
        self.evaluation, self.state = evaluation, state
        super().__init__(f"{evaluation} is {state}: only what was analyzed can be exported")


class Altered(Exception):
    """A reference log is not what its digest says."""

    def __init__(self, found: str, expected: str) -> None:
        """Name both digests."""
        self.found, self.expected = found, expected
        super().__init__(f"was altered: its digest is {found[:16]}…, it says {expected[:16]}…")


def reference_log(
    status: EvaluationStatus,
    agents: Iterable[Announcement],
    tables: Mapping[str, Rows],
    predictions: Sequence[Prediction],
) -> ReferenceLog:
    """Return an evaluation's log; `tables` are rows by table name. Raises NotMeasured."""
    if status.state != "analyzed" or status.request is None or status.subject is None:
        raise NotMeasured(status.evaluation, status.state)
    sent = status.request.dataset
    dataset = sent if isinstance(sent, DatasetManifest) else status.subject.dataset
    subject = status.subject.model_copy(update={"dataset": dataset})
    request = status.request.model_copy(
        update={"model": subject.model, "dataset": dataset, "key": ""}
    )
    answers = first_answers(predictions)
    conditions = tables.get("conditions", ())
    log = ReferenceLog(
        evaluation=status.evaluation,
        measured_ns=status.requested_ns,
        mlscope_version=str(conditions[0].get("mlscope_version", "")) if conditions else "",
        request=request,
        subject=subject,
        machines=tuple(machine_of(each) for each in agents if each.agent in status.agents),
        runs=tuple(_run(each, tables, answers) for each in status.runs),
        accuracy=tuple(dict(row) for row in tables.get("accuracy", ())),
        answers=answers[:MOST_ANSWERS],
    )
    return log.model_copy(update={"digest": digest_of(log)})


def digest_of(log: ReferenceLog) -> str:
    """Return the sha256 of a log without its digest, canonical JSON, in hex."""
    return _digest(log.model_copy(update={"digest": ""}).model_dump(mode="json"))


def checked(log: ReferenceLog) -> ReferenceLog:
    """Return a log that was read from a file. Raises Altered."""
    found = digest_of(log)
    if found != log.digest:
        raise Altered(found, log.digest)
    return log


def request_again(log: ReferenceLog, agents: Sequence[str] = (), **changes: Any) -> Evaluate:
    """Return the request that repeats a log, with the options that were in effect.

    On any agent that fits, or on those named: the ones it ran on are of another cluster.
    """
    subject = log.subject
    labels = {**log.request.labels, "reproduces": log.evaluation}
    own = {"agents": tuple(agents), "options": subject.options, "labels": labels, "key": ""}
    return log.request.model_copy(update={**own, **changes})


def first_answers(predictions: Iterable[Prediction]) -> tuple[ReferenceAnswer, ...]:
    """Return each sample's first answer in each run, in the order of runs and samples."""
    found: dict[tuple[str, int], Prediction] = {}
    for each in predictions:
        known = found.get((each.run, each.sample))
        if known is None or each.query < known.query:
            found[each.run, each.sample] = each
    return tuple(
        ReferenceAnswer(run=run, sample=sample, features=found[run, sample].features)
        for run, sample in sorted(found)
    )


def machine_of(known: Announcement) -> ReferenceMachine:
    """Return an agent as the manifests that it fits itself."""
    machine = known.hardware
    hardware = HardwareManifest(
        name=known.agent,
        architecture=machine.architecture,
        cpu={"model": machine.cpu_model, "cores": machine.cores},
        accelerators=tuple(
            each.model_dump(mode="json", include={"name", "memory_bytes", "interconnect"})
            for each in machine.accelerators
        ),
        interconnect=machine.interconnect,
        memory_bytes=machine.memory_bytes,
    )
    packages = {"python": known.python_version, "mlscope": known.mlscope_version}
    packages |= {runtime.framework: runtime.version for runtime in known.runtimes}
    software = SoftwareManifest(
        name=known.agent,
        container=known.image,
        packages={name: version for name, version in packages.items() if version},
    )
    return ReferenceMachine(agent=known.agent, hardware=hardware, software=software)


def _run(
    run: RunStatus, tables: Mapping[str, Rows], answers: Iterable[ReferenceAnswer]
) -> ReferenceRun:
    own = [each.model_dump(mode="json", exclude={"run"}) for each in answers if each.run == run.run]
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
        predictions_digest=_digest(own) if own else "",
    )


def _row(tables: Mapping[str, Rows], table: str, run: str) -> dict[str, Any]:
    return next((dict(row) for row in tables.get(table, ()) if row.get("run") == run), {})


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def written(log: Message) -> str:
    """Return a log as the text of its file."""
    return log.model_dump_json(indent=2) + "\n"
