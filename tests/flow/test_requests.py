"""Requests from a bare nats-py client, in JSON and msgpack; what they may and may not do."""

import asyncio
import base64
import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgpack
import psycopg
import pytest

from cli import exits
from cli.cluster.state import read_state
from mlscope.settings import Settings
from schemas.values.identity import run_key
from tests.docs.pages import code_blocks
from tests.flow.asking import EVALUATE, Stranger, stranger
from tests.flow.clusters import REPOSITORY, SERVICES, Cluster, assert_well, until

SMALL = {"model": "identity", "scenarios": [{"name": "online", "parameters": {"queries": 3}}]}
ROOT = "mlscope.v1"


@pytest.fixture
async def asker(cluster: Cluster) -> AsyncIterator[Stranger]:
    async with stranger(cluster.nats_url, cluster.key("requester")) as connected:
        yield connected


@pytest.fixture(scope="module", autouse=True)
def _well_afterwards(cluster: Cluster) -> Iterator[None]:
    yield
    assert_well(cluster)


async def test_json_is_answered_in_json_with_id_and_address(
    cluster: Cluster, asker: Stranger
) -> None:
    answer = await asker.json(EVALUATE, SMALL)
    assert answer["accepted"] is True
    assert answer["address"].endswith(f"/evaluations/{answer['evaluation']}")
    with cluster.client() as client:
        assert client.evaluation(answer["evaluation"]).wait(30).state == "analyzed"


async def test_msgpack_is_answered_in_msgpack(asker: Stranger) -> None:
    answer = (await asker.nc.request(EVALUATE, msgpack.packb(SMALL), timeout=5)).data
    assert msgpack.unpackb(answer)["accepted"] is True


async def test_the_same_key_is_the_same_evaluation(asker: Stranger) -> None:
    request = {**SMALL, "key": "once"}
    first = await asker.json(EVALUATE, request)
    again = await asker.raw(EVALUATE, msgpack.packb(request))
    assert (again["evaluation"], again["repeated"]) == (first["evaluation"], True)


async def test_a_key_stands_for_one_request(asker: Stranger) -> None:
    await asker.json(EVALUATE, {**SMALL, "key": "mine"})
    answer = await asker.json(EVALUATE, {**SMALL, "key": "mine", "warmup": 7})
    assert (answer["error"], answer["field"]) == ("conflict", "key")


async def test_a_request_that_holds_nan_equals_itself(asker: Stranger) -> None:
    request = msgpack.packb({**SMALL, "key": "nan", "options": {"threads": float("nan")}})
    first = await asker.raw(EVALUATE, request)
    again = await asker.raw(EVALUATE, request)
    assert (first["accepted"], again["repeated"]) == (True, True), (first, again)


REFUSALS: list[tuple[dict[str, Any], str, str, str]] = [
    ({"model": "tiny-cn"}, "unknown", "model", "tiny-cnn"),
    ({"model": "tiny-cnn:>=9"}, "unknown", "model", "1.0.0"),
    ({"model": "tiny-cnn", "dataset": "foto"}, "unknown", "dataset", "photos"),
    ({"model": "tiny-cnn", "scenarios": ["onlin"]}, "unknown", "scenarios.0.name", "online"),
    (
        {"model": "tiny-cnn", "scenarios": [{"name": "poisson", "parameters": {"rate": 3}}]},
        "invalid",
        "scenarios.0.parameters.rate",
        "rate_hz",
    ),
    (
        {"model": "tiny-cnn", "scenarios": [{"name": "online", "parameters": {"queries": 0}}]},
        "invalid",
        "scenarios.0.parameters.queries",
        "1",
    ),
    ({"model": "tiny-cnn", "batch_sizes": "four"}, "malformed", "batch_sizes", "tuple"),
    ({"model": "tiny-cnn", "batch_sizes": [0]}, "malformed", "batch_sizes", "65536"),
    ({"model": "tiny-cnn", "trace_level": "deep"}, "malformed", "trace_level", "framework"),
    ({"model": "tiny-cnn", "modle": 1}, "malformed", "modle", "model"),
    ({"model": "tiny-cnn", "agents": ["a b"]}, "malformed", "agents.0", "1 to 64 of"),
    ({"model": "tiny-cnn", "framework": "onnxruntime:>>1"}, "invalid", "framework.version", ">="),
    ({"model": "tiny-cnn", "framework": "torch"}, "invalid", "framework.name", "onnxruntime"),
    ({}, "malformed", "model", "required"),
]


@pytest.mark.parametrize(("request_", "error", "field", "allowed"), REFUSALS)
async def test_a_refusal_names_the_field_and_what_is_allowed(
    asker: Stranger, request_: dict[str, Any], error: str, field: str, allowed: str
) -> None:
    answer = await asker.json(EVALUATE, request_)
    assert (answer["accepted"], answer["error"], answer["field"]) == (False, error, field), answer
    assert allowed in answer["allowed"], answer


@pytest.mark.parametrize(
    "body",
    [
        b"\xc1",
        b"\x81\xa5model",
        b"{",
        b'{"model": ',
        b"[1, 2]",
        b"\x93\x01\x02\x03",
        b"\xff" * 100,
        b"{" * 100_000,
        b"\x81" * 100_000,
        b'"tiny-cnn"',
        b'{"model": {"name": ["deep", {"er": null}]}}',
        b'{"model": "identity", "labels": {"half": "\\ud800"}}',
        b'{"model": "identity", "options": {"threads": 1' + b"0" * 30 + b"}}",
        b'{"model": "identity", "options": {"threads": NaN}}',
        b'{"model": "identity", "options": ' + b'{"a": ' * 2000 + b"1" + b"}" * 2000 + b"}",
    ],
    ids=lambda body: repr(body[:12]),
)
async def test_bytes_that_are_no_request_are_refused_as_malformed(
    asker: Stranger, body: bytes
) -> None:
    answer = await asker.raw(EVALUATE, body)
    assert (answer["accepted"], answer["error"]) == (False, "malformed"), answer
    assert answer["message"]


async def test_a_body_beyond_the_bound_is_refused(asker: Stranger) -> None:
    most_bytes = Settings().max_request_bytes
    answer = await asker.json(EVALUATE, {"model": "x" * most_bytes})
    assert (answer["accepted"], answer["error"], answer["field"]) == (False, "invalid", "model")
    assert f"{most_bytes} bytes" in answer["allowed"]
    for word in ("model", f"{most_bytes} bytes", "MLSCOPE_MAX_REQUEST_BYTES"):
        assert word in answer["message"]


async def test_unsatisfiable_says_agent_by_agent_why(asker: Stranger) -> None:
    need = {"accelerator": "H200", "memory_bytes": 1 << 50, "labels": {"room": "b"}}
    answer = await asker.json(EVALUATE, {**SMALL, "system": need, "agents": ["first", "ghost"]})
    assert answer["error"] == "unsatisfiable"
    reasons = {own["agent"]: own["reason"] for own in answer["agents"]}
    first, ghost = reasons.pop("first"), reasons.pop("ghost")
    assert "not known" in ghost
    for word in ("wanted accelerator H200", "memory", "room=b"):
        assert word in first
    # Agents that other files' tests lent to this cluster.
    assert {reason.partition(":")[0] for reason in reasons.values()} <= {
        "not among the agents that the request names"
    }


async def test_without_a_reply_subject_a_request_is_done_all_the_same(
    cluster: Cluster, asker: Stranger
) -> None:
    await asker.nc.publish(EVALUATE, json.dumps({**SMALL, "key": "silent"}).encode())
    await asker.nc.flush()
    answer = await asker.json(EVALUATE, {**SMALL, "key": "silent"})
    assert answer["accepted"] is True
    with cluster.client() as client:
        assert client.evaluation(answer["evaluation"]).wait(30).state == "analyzed"


async def test_a_refusal_nobody_waits_for_lands_in_the_dead_letters(
    cluster: Cluster, asker: Stranger
) -> None:
    await asker.nc.publish(EVALUATE, b'{"model": "lost-in-the-mail"}')
    await asker.json(EVALUATE, {"model": "nothing"})
    async with stranger(cluster.nats_url, cluster.key("provisioner"), "provisioner") as reader:
        letter = await last_letter(reader)
        for _ in range(50):
            if b"lost-in-the-mail" in letter["data"].get("body", b""):
                break
            letter = await last_letter(reader)
    assert letter["data"]["service"] == "scheduler"
    assert letter["data"]["subject"] == EVALUATE
    assert "unknown" in letter["data"]["reason"]


async def last_letter(reader: Stranger) -> dict[str, Any]:
    """Return the newest dead letter's envelope, or one without data."""
    wanted = {"last_by_subj": f"{ROOT}.dead.>"}
    answer = await reader.json("$JS.API.STREAM.MSG.GET.DEAD", wanted)
    if "message" not in answer:
        return {"data": {}}
    envelope: dict[str, Any] = msgpack.unpackb(base64.b64decode(answer["message"]["data"]))
    return envelope


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("verb", ["PING", "INFO", "STATS"])
async def test_every_service_answers_discovery(asker: Stranger, service: str, verb: str) -> None:
    told = await asker.json(f"$SRV.{verb}.{service}", {})
    assert told["name"] == service
    assert told["type"] == f"io.nats.micro.v1.{verb.lower()}_response"
    if verb == "INFO":
        asked = (f"{ROOT}.request.", f"{ROOT}.asked.")
        assert all(each["subject"].startswith(asked) for each in told["endpoints"])
    if verb == "STATS":
        assert told["endpoints"][0]["data"] is not None


async def test_one_ping_reaches_all_six(asker: Stranger) -> None:
    inbox = asker.nc.new_inbox()
    heard = await asker.nc.subscribe(inbox)
    await asker.nc.publish("$SRV.PING", b"", reply=inbox)
    names = {json.loads((await heard.next_msg(timeout=5)).data)["name"] for _ in SERVICES}
    assert names == set(SERVICES)


FORBIDDEN_TO_SAY = [
    f"{ROOT}.evaluation.e1.requested",
    f"{ROOT}.run.e1.r1.completed.first",
    f"{ROOT}.trace.e1.r1.captured.first",
    f"{ROOT}.query.e1.r1.answered.first",
    f"{ROOT}.analysis.e1.completed",
    f"{ROOT}.manifest.model_x.published",
    f"{ROOT}.agent.first.left",
    f"{ROOT}.dead.scheduler.buried",
    f"{ROOT}.request.agent.first.start",
    f"{ROOT}.request.agent.first.stop",
    "$KV.catalog.agent_first",
    "$KV.leases.agent-first",
    "$O.payloads.C.x",
    "$O.payloads.M.first.x",
    "$JS.API.INFO",
    "$JS.API.STREAM.NAMES",
    "$JS.API.STREAM.CREATE.MINE",
    "$JS.API.STREAM.DELETE.EVALUATIONS",
    "$JS.API.STREAM.PURGE.EVALUATIONS",
    "$JS.API.STREAM.MSG.GET.EVALUATIONS",
    "$JS.API.DIRECT.GET.EVALUATIONS",
    "$JS.API.CONSUMER.CREATE.EVALUATIONS",
    "$JS.API.CONSUMER.MSG.NEXT.EVALUATIONS.scheduler",
    "$JS.ACK.EVALUATIONS.scheduler.1.1.1.1.0",
    "$SYS.REQ.SERVER.PING",
    "_INBOX_scheduler.x",
    "_INBOX_requester.x",
    "anything",
]
FORBIDDEN_TO_HEAR = [
    ">",
    "*",
    f"{ROOT}.>",
    f"{ROOT}.request.>",
    f"{ROOT}.request.evaluate",
    f"{ROOT}.trace.>",
    f"{ROOT}.dead.>",
    "$KV.>",
    "$KV.leases.>",
    "$JS.>",
    "$SRV.PING",
    "$SYS.>",
    "_INBOX.>",
    "_INBOX_scheduler.>",
    "_INBOX_gateway.>",
]


async def test_the_requester_s_key_can_say_nothing_else(asker: Stranger) -> None:
    for subject in FORBIDDEN_TO_SAY:
        await asker.nc.publish(subject, b"{}")
    refusals = await asker.denied(len(FORBIDDEN_TO_SAY))
    missing = [each for each in FORBIDDEN_TO_SAY if f'publish to "{each.lower()}"' not in refusals]
    assert missing == []


async def test_the_requester_s_key_can_hear_nothing_else(asker: Stranger) -> None:
    for subject in FORBIDDEN_TO_HEAR:
        await asker.nc.subscribe(subject)
    refusals = await asker.denied(len(FORBIDDEN_TO_HEAR))
    missing = [
        each for each in FORBIDDEN_TO_HEAR if f'subscription to "{each.lower()}"' not in refusals
    ]
    assert missing == []


async def test_a_reply_subject_that_is_no_inbox_gets_no_answer(
    cluster: Cluster, asker: Stranger
) -> None:
    """Else the scheduler's own rights would carry its answer into the log as a fact."""
    forged = f"{ROOT}.evaluation.forged.requested"
    await asker.nc.publish(EVALUATE, json.dumps(SMALL).encode(), reply=forged)
    await asker.json(EVALUATE, SMALL)
    async with stranger(cluster.nats_url, cluster.key("provisioner"), "provisioner") as reader:
        answer = await reader.json(
            "$JS.API.STREAM.MSG.GET.EVALUATIONS", {"last_by_subj": f"{ROOT}.evaluation.forged.>"}
        )
    assert answer["error"]["err_code"] == 10037


async def test_without_a_key_nobody_gets_in(cluster: Cluster) -> None:
    place = urlsplit(cluster.nats_url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    writer.write(
        b'CONNECT {"verbose": false}\r\nPUB mlscope.v1.request.evaluate 2\r\n{}\r\nPING\r\n'
    )
    told = await reader.read()
    writer.close()
    await writer.wait_closed()
    assert b"Authorization Violation" in told
    assert b"PONG" not in told


async def test_the_documented_line_for_the_nats_program_is_accepted(cluster: Cluster) -> None:
    """There need be no such program here: what it would send is sent, byte for byte."""
    page = (REPOSITORY / "docs/howto/any_client.md").read_text("utf-8")
    line = re.search(r"^(nats --server (?:.*\\\n)*.*)$", page, re.MULTILINE)
    assert line, "the page asks from the shell"
    _, *options, verb, subject, body = shlex.split(line[1].replace("\\\n", " "))
    given = dict(zip(options[::2], options[1::2], strict=True))
    seed_file = cluster.folder / Path(given.pop("--nkey")).relative_to(".mlscope")
    name = given.pop("--inbox-prefix").removeprefix("_INBOX_")
    assert (verb, given) == ("request", {"--server": "nats://127.0.0.1:4222"})
    async with stranger(cluster.nats_url, seed_file, name) as asking:
        told = json.loads((await asking.nc.request(subject, body.encode(), timeout=60)).data)
    assert told["accepted"] is True, told
    with cluster.client() as client:
        client.evaluation(told["evaluation"]).cancel("only asked for")


@pytest.mark.parametrize(
    ("scenario", "parameters"),
    [("online", "queries=100000"), ("fixed_rate", "queries=900,rate_hz=60")],
)
def test_ctrl_c_shows_the_answers_of_the_run_that_it_cuts_off(
    cluster: Cluster, scenario: str, parameters: str
) -> None:
    words = ("run", "tiny-cnn", "--scenario", f"{scenario}:{parameters}", "-o", "json")
    command, pipe = [sys.executable, "-m", "cli.main", *words], subprocess.PIPE
    with subprocess.Popen(
        command, env=cluster.environment(), stdout=pipe, stderr=pipe, text=True
    ) as process:
        assert process.stderr is not None
        evaluation = process.stderr.readline().split()[1]
        key = run_key(evaluation, f"b1-{scenario}-model", 1)
        until(lambda: cluster.rows("SELECT FROM query WHERE run_key = %s LIMIT 1", key))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == exits.INTERRUPTED, err
    tables = json.loads(out)["tables"]
    assert [row["end"] for row in tables["conditions"]] == ["cancelled"]
    assert tables["latency"][0]["count"] > 0
    assert f"1 cut off, and analyzed: mlscope analyze {evaluation}" in err


def test_the_documented_sql_is_answered(cluster: Cluster) -> None:
    """There need be no psql here: its statement is run by the password that it names."""
    page = (REPOSITORY / "docs/howto/sql.md").read_text("utf-8")
    named = re.search(
        r'PGPASSWORD=\$\(cat \.mlscope/(\S+)\) psql ADDRESS \\\n +-c "(.*)"$', page, re.MULTILINE
    )
    assert named, "the page asks in SQL"
    password = (cluster.folder / named[1]).read_text("utf-8").strip()
    address = read_state(cluster.folder).database_url
    with psycopg.connect(address, password=password) as session:
        assert [each.name for each in session.execute(named[2]).description or ()] == [
            "run",
            "name",
            "time",
        ]


def test_readme_s_python_runs_as_it_stands(cluster: Cluster) -> None:
    (block,) = (b for b in code_blocks(REPOSITORY / "README.md") if b.language == "python")
    done = subprocess.run(
        [sys.executable, "-c", block.text],
        env=cluster.environment(PYTHONPATH=str(REPOSITORY)),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "online" in done.stdout
