"""No key outside the log's account reaches the log by a reply subject; the docs say what is tried.

Every right that a key has is tried, answered onto the log.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.cluster.servers.nats_server import NatsServer
from mlscope.bus.access.accounts import INSIDE
from mlscope.bus.streams import STREAMS
from mlscope.provision import provision
from tests.cli.cluster.keyholders import served
from tests.cli.cluster.reply_tricks import (
    DESTRUCTIVE,
    OUTSIDERS,
    REACHED,
    STORED,
    opened,
    section,
    settings_of,
    settle,
    stored_subjects,
    stream_states,
    tricks,
)
from tests.cli.cluster.rights_matrix import PAGE

DOCS = Path(__file__).resolve().parents[3] / "docs" / "security.md"
OUTCOMES: list[dict[str, dict[str, str]]] = []


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """Run a server that knows every kind of key."""
    with served(tmp_path_factory.mktemp("guarded")) as server:
        yield server


@pytest.fixture
async def outcomes(data_folder: Path) -> dict[str, dict[str, str]]:
    """Try everything, once for all tests of this file."""
    if not OUTCOMES:
        OUTCOMES.append(await tricks(data_folder))
    return OUTCOMES[0]


@pytest.mark.parametrize("name", OUTSIDERS)
async def test_no_answer_lands_in_the_log_or_harms_a_stream(
    outcomes: dict[str, dict[str, str]], name: str
) -> None:
    """Whatever is answered to a key, nothing is stored by it, and no order to JetStream obeyed."""
    assert [row for row, outcome in outcomes[name].items() if outcome == REACHED] == []


async def test_the_page_of_rights_has_what_was_tried(outcomes: dict[str, dict[str, str]]) -> None:
    assert PAGE.read_text("utf-8").endswith(section(outcomes)), "make rights"


async def test_what_a_requester_uploaded_is_answered_to_it_alone(guarded: NatsServer) -> None:
    """The attack as it was found: a body from the store becomes a fact, or a command."""
    await provision(settings_of(guarded))
    reader, requester = await opened(guarded, "provisioner"), await opened(guarded, "requester")
    described = "$O.uploads.M.eA=="
    get = f"$JS.API.DIRECT.GET.OBJ_uploads.{described}"
    for body in (b'{"forged": true}', b"{}", b""):
        assert b'"seq"' in (await requester.request(described, body)).data
        for reply in (*STORED.values(), *DESTRUCTIVE):
            await requester.publish(get, b"", reply=reply)
        assert (await requester.request(get, b"")).data == body
    await settle(reader)
    assert not set(STORED.values()) & await stored_subjects(reader)
    await requester.close()
    await reader.close()


async def test_the_provisioner_can_do_harm_as_the_docs_say(guarded: NatsServer) -> None:
    """A promise that is not made: who makes streams may have the end answered anywhere."""
    await provision(settings_of(guarded))
    holder = await opened(guarded, "provisioner")
    body = b'{"seq": 1, "batch": 10}'
    await holder.publish("$JS.API.DIRECT.GET.FLEET", body, reply="$JS.API.STREAM.DELETE.TRACES")
    await settle(holder)
    assert {stream.name for stream in STREAMS} - (await stream_states(holder)).keys() == {"TRACES"}
    assert frozenset({"provisioner"}) == INSIDE
    assert "it may delete any stream by a reply subject" in DOCS.read_text("utf-8")
    await holder.close()
