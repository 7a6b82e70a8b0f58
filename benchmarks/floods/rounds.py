"""One round: a flood, or none, while every service is asked and an evaluation runs (I/O)."""

import json
import math
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cluster import mlscope
from benchmarks.floods.probing import Probe, Question, answers_since_s, longest_gap_s
from benchmarks.floods.sending import Flood, sending
from benchmarks.memory import resident_bytes
from cli.cluster.plan import SERVICES
from cli.cluster.servers.nats_conf import MIB
from cli.cluster.state import read_state
from mlscope.bus.access.permissions import agent_inbox
from mlscope.bus.access.rights import add_uploads, health_inbox, ping, requests
from mlscope.bus.inboxes import inbox_prefix
from mlscope.client import Client, Evaluation
from mlscope.health import Announced
from mlscope.people import people_folder
from mlscope.settings import Settings
from schemas.status import EvaluationStatus

MODEL = "tiny-cnn"
RATE_HZ = 20.0
ANSWERS_WITHIN_S = 60.0
"""How long a round waits for every answer after its flood."""

VIEWER, REQUESTER, OTHER = "flooding-viewer", "flooding-requester", "other"
PEOPLE = {VIEWER: "viewer", REQUESTER: "requester", OTHER: "viewer"}


def _flood(person: str, name: str, subject: str) -> Flood:
    """Return the largest flood that a person's key allows (`mlscope.bus.access.limits`)."""
    size_bytes, connections = (256 << 10, 8) if person == VIEWER else (8 * MIB, 16)
    return Flood(name, person, subject, size_bytes, connections)


FLOODS: tuple[Flood | None, ...] = (
    None,
    _flood(VIEWER, "viewer", *requests("tables")),
    *(
        _flood(REQUESTER, verb, *requests(verb))
        for verb in ("tables", "evaluate", "catalog", "watch")
    ),
    _flood(REQUESTER, "uploads", add_uploads()[0].replace("*", "x")),
)
"""A viewer's, and a requester's: by a command of each service that answers people, or by uploads.

No person's message goes to the collector or an agent.
"""


@dataclass(frozen=True, slots=True)
class Round:
    """What one round did to a cluster.

    `gaps_s` has the longest time without an answer by question, `again_s` how long after the flood
    all were answered again. `unanswered` are queries of the evaluation that were stored so.
    """

    flood: str
    sent_mib_s: float
    gaps_s: dict[str, float]
    again_s: float
    broker_mib: float
    slow_consumers: int
    reconnections: int
    restarts: int
    state: str
    lost_rows: int
    unanswered: int


class Flooded:
    """A running cluster with people, and what is asked of it."""

    def __init__(self, folder: Path) -> None:
        """Let people into the cluster in `folder`, and evaluate once: there are tables then."""
        self.folder = folder
        self.url = read_state(folder).nats_url
        for name, role in PEOPLE.items():
            mlscope(folder, "people", "add", name, "--role", role)
        with Client(data=folder) as client:
            evaluation = client.run(MODEL, scenarios=["online"]).wait().evaluation
        self.questions = (*map(self._health, SERVICES), *self._commands(evaluation))

    def seed_of(self, person: str) -> str:
        """Return the seed of a `person`: a secret."""
        return (people_folder(self.folder) / f"{person}.nk").read_text("ascii").strip()

    def restarts(self) -> int:
        """Return how often processes were started again so far."""
        return sum(process.restarts for process in read_state(self.folder).processes)

    def broker_bytes(self) -> int:
        """Return the resident memory of the broker."""
        return resident_bytes(read_state(self.folder).alive["nats"].pid)

    def _health(self, service: str) -> Question:
        """Return the supervisor's question to a `service`."""
        announced = Announced.read(self.folder / "run" / f"{service}.ready")
        assert announced is not None, service
        agent = Settings.read({**os.environ, "MLSCOPE_DATA": str(self.folder)}).agent_id
        inbox = health_inbox(agent_inbox(agent) if service == "agent" else service)
        seed = (self.folder / "keys" / f"{service}.nk").read_text("ascii").strip()
        return Question(service, seed, ping(service, announced.instance), inbox)

    def _commands(self, evaluation: str) -> Iterator[Question]:
        """Yield what another person asks: one command of registry, scheduler and analyzer each."""
        bodies = {"catalog": {}, "evaluations": {}, "tables": {"evaluation": evaluation}}
        for verb, body in bodies.items():
            inbox = f"{inbox_prefix('requester')}.{verb}"
            (subject,), text = requests(verb), json.dumps(body).encode()
            yield Question(f"`{verb}`", self.seed_of(OTHER), subject, inbox, text)


class NewLines:
    """The lines that logs get from now on."""

    def __init__(self, folder: Path) -> None:
        """Take the logs in a `folder`."""
        self._begins = {path: path.stat().st_size for path in folder.glob("*.log")}

    def count(self, text: bytes) -> int:
        """Return in how many places there is a `text`; of a log that began anew, in all of it."""
        return sum(self._read(path, begin).count(text) for path, begin in self._begins.items())

    @staticmethod
    def _read(path: Path, begin: int) -> bytes:
        body = path.read_bytes()
        return body[begin if begin <= len(body) else 0 :]


@contextmanager
def asked(questions: Sequence[Question], url: str) -> Iterator[list[Probe]]:
    """Ask `questions` over the broker at `url` for the length of a block."""
    probes = [Probe(question, url) for question in questions]
    for probe in probes:
        probe.start()
    try:
        yield probes
    finally:
        for probe in probes:
            probe.end()


def run_round(cluster: Flooded, flood: Flood | None, length_s: float) -> Round:
    """Flood a `cluster` for `length_s` seconds, or leave it alone where `flood` is None."""
    logs, restarts = NewLines(cluster.folder / "logs"), cluster.restarts()
    with (
        Client(data=cluster.folder) as client,
        asked(cluster.questions, cluster.url) as probes,
    ):
        evaluation = _evaluating(client, length_s)
        begin_s = time.monotonic()
        with ExitStack() as stack:
            sent = flood and stack.enter_context(
                sending(flood, cluster.url, cluster.seed_of(flood.person))
            )
            broker_bytes = 0
            while (end_s := time.monotonic()) < begin_s + length_s:
                broker_bytes = max(broker_bytes, cluster.broker_bytes())
                time.sleep(0.1)
        again_s = _await_answers(probes, end_s)
        gaps_s = {
            probe.question.name: longest_gap_s(probe.answers, begin_s, time.monotonic())
            for probe in probes
        }
        status = evaluation.wait(600)
    return Round(
        flood=flood.name if flood else "quiet",
        sent_mib_s=sent.value * flood.message_bytes / MIB / length_s if sent and flood else 0.0,
        gaps_s=gaps_s,
        again_s=again_s,
        broker_mib=broker_bytes / MIB,
        slow_consumers=logs.count(b"Slow Consumer Detected"),
        reconnections=logs.count(b": connected again"),
        restarts=cluster.restarts() - restarts,
        state=status.state,
        lost_rows=lost_rows(status),
        unanswered=sum(run.failed_queries for run in status.runs),
    )


def _evaluating(client: Client, length_s: float) -> Evaluation:
    """Start an evaluation whose load takes `length_s` seconds, and return once it runs."""
    load = {"rate_hz": RATE_HZ, "queries": max(int(RATE_HZ * length_s), 1)}
    evaluation = client.run(
        MODEL,
        scenarios=[{"name": "poisson", "parameters": load}],
        trace_level="model",
        levels=["model"],
    )
    while evaluation.status().state in ("requested", "planned"):
        time.sleep(0.1)
    return evaluation


def _await_answers(probes: Sequence[Probe], end_s: float) -> float:
    """Return how long after `end_s` every question was answered again; inf: too long."""
    while (
        again_s := max(answers_since_s(probe.answers, end_s) for probe in probes)
    ) == math.inf and time.monotonic() < end_s + ANSWERS_WITHIN_S:
        time.sleep(0.05)
    return again_s - end_s


def lost_rows(status: EvaluationStatus) -> int:
    """Return how many rows of an evaluation, as planned and as its agent said, are not stored."""
    lost = 0
    for run in status.runs:
        stored = run.stored
        spans, queries = (stored.spans, stored.queries) if stored else (0, 0)
        lost += max(run.queries - queries, 0)
        lost += max(run.announced.spans - spans, 0) if run.announced else 0
    return lost
