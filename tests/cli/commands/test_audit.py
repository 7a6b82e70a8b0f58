"""`mlscope audit`: who did what and when, oldest first, of everybody or of one person."""

import csv
import hashlib
import io
import json
import re
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime

import pytest

from cli.commands.audit import audit
from mlscope.bus.bus import Bus
from mlscope.bus.envelopes import encode_envelope, in_envelope
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.agent import (
    AgentAnnounced,
    AgentDrained,
    AgentInvited,
    AgentJoined,
    AgentResumed,
    AgentRevoked,
)
from schemas.evaluation import EvaluationCancelled, EvaluationRequested
from schemas.manifest import ManifestPublished, ManifestWithdrawn
from schemas.message import Fact
from schemas.people import PersonAdded, PersonRefused, PersonRemoved
from schemas.price import AgentPriced
from schemas.request import Evaluate
from schemas.subjects import subject_of
from schemas.values.identity import ALLOWED
from tests.cli.in_process import arguments
from tests.services.registry.samples import a_model, an_announcement
from tests.stories import E

FACTS: tuple[Fact, ...] = (
    AgentAnnounced(agent="a1", announcement=an_announcement()),
    PersonAdded(person="ada", role="requester", key="U1", at_most=2, per_day=9),
    PersonAdded(person="bob", role="viewer", key="U2"),
    EvaluationRequested(
        evaluation=E, request=Evaluate(model="tiny"), requested_ns=1, requested_by="ada"
    ),
    EvaluationRequested(evaluation=f"{E}0", request=Evaluate(model="tiny"), requested_ns=1),
    PersonRefused(person="bob", verb="evaluate", reason="viewers ask for nothing"),
    EvaluationCancelled(evaluation=E, reason="enough", cancelled_by="ada"),
    AgentInvited(agent="a1", ends_ns=1_000_000_000),
    AgentJoined(agent="a1"),
    AgentDrained(agent="a1"),
    PersonAdded(person="operator", role="owner"),
    ManifestWithdrawn(kind="model", name="n", version="1.0.0", withdrawn_by="operator"),
    AgentResumed(agent="a1"),
    AgentRevoked(agent="a1"),
    AgentPriced(agent="a1", dollars_per_hour=3.06, set_by="ada"),
    ManifestPublished(manifest=a_model(), digest="d"),
    ManifestWithdrawn(kind="model", name="m", version="1.0.0"),
    ManifestPublished(manifest=a_model(), digest="d", published_by="olga"),
    ManifestWithdrawn(kind="model", name="m", version="1.0.0", withdrawn_by="olga"),
    PersonRemoved(person="bob"),
)


@pytest.fixture
async def log(monkeypatch: pytest.MonkeyPatch) -> MemoryServer:
    """Record the facts, have the command read them, and return the server that has them."""
    server = MemoryServer()

    @asynccontextmanager
    async def connect_here(_: object, name: str) -> AsyncGenerator[Bus, None]:
        async with connect(server, name) as bus:
            yield bus

    monkeypatch.setenv("MLSCOPE_NATS_URL", "nats://127.0.0.1:1")
    monkeypatch.setattr("mlscope.bus.nats.connect", connect_here)
    async with connect(server, "scheduler") as bus:
        for number, fact in enumerate(FACTS):
            await bus.publish(fact, id=f"f{number}")
    return server


async def rows(capsys: pytest.CaptureFixture[str], *words: str) -> list[list[str]]:
    """Return what the command prints, without its heads and times."""
    assert await audit(arguments("audit", "-o", "csv", *words)) == 0
    _, *lines = csv.reader(io.StringIO(capsys.readouterr().out))
    return [line[1:] for line in lines]


@pytest.mark.usefixtures("log")
async def test_every_action_has_its_person_its_object_and_its_details(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert await rows(capsys) == [
        ["the cluster's operator", "person.added", "ada", "requester, at most: 2, a day: 9"],
        ["the cluster's operator", "person.added", "bob", "viewer"],
        ["ada", "evaluation.requested", E, "tiny"],
        ["the cluster's user", "evaluation.requested", f"{E}0", "tiny"],
        ["bob", "person.refused", "evaluate", "viewers ask for nothing"],
        ["ada", "evaluation.cancelled", E, "enough"],
        ["the cluster's operator", "agent.invited", "a1", "until 1970-01-01T00:00:01+00:00"],
        ["agent a1", "agent.joined", "a1", ""],
        ["the cluster's operator", "agent.drained", "a1", ""],
        ["the cluster's operator", "person.added", "operator", "owner"],
        ["operator", "manifest.withdrawn", "n:1.0.0", "model"],
        ["the cluster's operator", "agent.resumed", "a1", ""],
        ["the cluster's operator", "agent.revoked", "a1", ""],
        ["ada", "agent.priced", "a1", "$3.06 an hour"],
        ["", "manifest.published", "m:1.0.0", "model"],
        ["the cluster's user", "manifest.withdrawn", "m:1.0.0", "model"],
        ["olga", "manifest.published", "m:1.0.0", "model"],
        ["olga", "manifest.withdrawn", "m:1.0.0", "model"],
        ["the cluster's operator", "person.removed", "bob", ""],
    ]


@pytest.mark.usefixtures("log")
async def test_one_person_and_the_newest_actions(capsys: pytest.CaptureFixture[str]) -> None:
    of_ada = await rows(capsys, "--by", "ada")
    asked = ["evaluation.requested", "evaluation.cancelled", "agent.priced"]
    assert [row[1] for row in of_ada] == asked
    assert await rows(capsys, "--by", "ada", "--limit", "1") == of_ada[2:]
    assert [row[1] for row in await rows(capsys, "--limit", "2")] == [
        "manifest.withdrawn",
        "person.removed",
    ]
    assert len(await rows(capsys, "--limit", "0")) == 19
    assert await rows(capsys, "--by", "nobody") == []


async def test_what_cannot_be_read_is_listed_with_what_its_subject_says(
    log: MemoryServer, capsys: pytest.CaptureFixture[str]
) -> None:
    for subject in (
        "evaluation.e9.requested",
        "person.eve.refused",
        "person.eve.removed",
        "agent.a9.announced",
        "agent.a9.drained",
    ):
        log.store(f"mlscope.v1.{subject}", b"newer", id="", expected=None)
    *_, asked, refused, removed, drained = await rows(capsys)
    assert [asked[:3], refused[:3], removed[:3], drained[:3]] == [
        ["not known", "evaluation.requested", "e9"],
        ["eve", "person.refused", "eve"],
        ["the cluster's operator", "person.removed", "eve"],
        ["the cluster's operator", "agent.drained", "a9"],
    ]
    for row in (asked, refused, removed, drained):
        assert row[3].startswith("cannot be read: ")
    assert await rows(capsys, "--by", "not known") == [asked]


async def test_a_request_whose_payload_is_lost_is_listed(
    log: MemoryServer, capsys: pytest.CaptureFixture[str]
) -> None:
    request = Evaluate(model="tiny", labels={str(n): "x" * 9000 for n in range(60)})
    fact = EvaluationRequested(evaluation="e9", request=request, requested_ns=1, requested_by="eve")
    lost = await encode_envelope(subject_of(fact), in_envelope(fact, id="e9"), forgotten)
    log.store(subject_of(fact), lost, id="e9", expected=None)
    before_s = int(time.time())
    assert await audit(arguments("audit", "-o", "json")) == 0
    row = json.loads(capsys.readouterr().out)[-1]
    at = datetime.fromisoformat(row.pop("at"))
    assert abs(at.timestamp() - before_s) < 60
    reason = row.pop("details")
    assert reason.startswith("cannot be read: no payload evaluation.requested-e9-")
    assert row == {"who": "not known", "did": "evaluation.requested", "what": "e9"}


async def forgotten(_: str, __: str, body: bytes) -> str:
    """Pretend to store a payload."""
    return hashlib.sha256(body).hexdigest()


@pytest.mark.usefixtures("log")
async def test_a_person_called_operator_is_not_the_cluster_s_operator(
    capsys: pytest.CaptureFixture[str],
) -> None:
    of_person = await rows(capsys, "--by", "operator")
    assert of_person == [["operator", "manifest.withdrawn", "n:1.0.0", "model"]]
    every = await rows(capsys)
    of_keys = {row[0] for row in every} - {"ada", "bob", "olga", "operator", ""}
    assert of_keys == {"the cluster's operator", "the cluster's user", "agent a1"}
    assert not any(re.fullmatch(ALLOWED, name) for name in of_keys)
