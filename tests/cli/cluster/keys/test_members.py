"""Who joined a cluster, and who may: a file each, and every invitation works once."""

import base64
import binascii
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cli.cluster.keys import secret_files
from cli.cluster.keys.members import Members
from cli.cluster.servers.nats_server import NatsServer
from mlscope.people import Person, people_folder
from schemas.people import Asker


def a_key(number: int) -> str:
    """Return the public key of a NATS user: a type, 32 bytes and a checksum."""
    typed = bytes([20 << 3]) + bytes([number]) * 32
    return base64.b32encode(typed + binascii.crc_hqx(typed, 0).to_bytes(2, "little")).decode()


KEYS = [a_key(number) for number in range(8)]


def test_of_many_who_use_one_invitation_one_joins(tmp_path: Path) -> None:
    members = Members(tmp_path)
    for _ in range(20):
        members.invite("gpu1", KEYS[0], time.time() + 60)
        with ThreadPoolExecutor(len(KEYS)) as pool:
            admitted = list(pool.map(lambda key: members.admit("gpu1", key), KEYS))
        assert admitted.count(True) == 1
        assert members.keys == {"gpu1": KEYS[admitted.index(True)]}
        assert members.invitations(time.time()) == {}


def test_an_invitation_ends(tmp_path: Path) -> None:
    members = Members(tmp_path)
    members.invite("gpu1", KEYS[0], time.time() - 1)
    assert members.users() == {}
    assert not members.admit("gpu1", KEYS[1])
    assert members.keys == {}


@pytest.mark.parametrize(
    "key", ["", "U", KEYS[0][:-1], f"{KEYS[0]}A", "SU" + "A" * 56, "Ü" * 56, "U" + "A" * 55]
)
def test_what_is_no_public_key_is_not_admitted(tmp_path: Path, key: str) -> None:
    members = Members(tmp_path)
    members.invite("gpu1", KEYS[0], time.time() + 60)
    assert not members.admit("gpu1", key)
    assert members.admit("gpu1", KEYS[1])


def test_a_member_that_is_removed_is_no_user(tmp_path: Path) -> None:
    members = Members(tmp_path)
    members.invite("gpu1", KEYS[0], time.time() + 60)
    members.invite("gpu2", KEYS[1], time.time() + 60)
    members.admit("gpu1", KEYS[2])
    assert members.users() == {"agent-gpu1": KEYS[2], "invitation-gpu2": KEYS[1]}
    assert members.remove("gpu1")
    assert members.remove("gpu2")
    assert members.users() == {}
    # Whoever removes it has yet to tell others, and may fail.
    assert members.remove("gpu1")
    members.end_removal("gpu1")
    assert not members.remove("gpu1")


def test_a_key_is_one_agents_alone(tmp_path: Path) -> None:
    members = Members(tmp_path)
    for agent in ("gpu1", "gpu2"):
        members.invite(agent, KEYS[0], time.time() + 60)
    assert members.admit("gpu1", KEYS[1])
    assert not members.admit("gpu2", KEYS[1])
    assert members.admit("gpu2", KEYS[2])


def test_stray_files_do_not_keep_the_broker_from_starting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    members = Members(tmp_path)
    members.invite("gpu1", KEYS[0], time.time() + 60)
    members.admit("gpu1", KEYS[1])
    folder = tmp_path / "keys"
    strays = {
        "members/no agent.pub": KEYS[2],
        "members/scheduler.pub": KEYS[2],
        "members/gpu2.pub": "U" + "A" * 55,
        "members/gpu3.pub": "Ü",
        "members/gpu4.pub": KEYS[1],
        "invitations/gpu5.json": "{",
        "invitations/gpu6.json": "[]",
    }
    for name, text in strays.items():
        (folder / name).write_text(text)
    with caplog.at_level(logging.WARNING):
        assert members.users() == {"agent-gpu1": KEYS[1]}
        assert members.users() == {"agent-gpu1": KEYS[1]}
    assert len(caplog.records) == len(strays)
    assert NatsServer(tmp_path).command()


def test_a_key_of_another_gets_no_user(tmp_path: Path) -> None:
    server, members = NatsServer(tmp_path), Members(tmp_path)
    requester = secret_files.ensure_key(tmp_path / "keys", "requester").public
    people_folder(tmp_path).mkdir(parents=True)
    for name, public in (("ada", KEYS[1]), ("bob", KEYS[1]), ("eve", requester)):
        text = Person(Asker(name), public, "a token").text()
        (people_folder(tmp_path) / f"{name}.json").write_text(text)
    members.invite("gpu1", KEYS[0], time.time() + 60)
    members.admit("gpu1", requester)
    text = server.configuration()
    assert [text.count(public) for public in (KEYS[1], requester)] == [1, 1]


def test_the_configuration_follows_the_members(tmp_path: Path) -> None:
    server, members = NatsServer(tmp_path), Members(tmp_path)
    assert server.refresh()
    assert not server.refresh()
    public = secret_files.ensure_key(tmp_path / "elsewhere", "agent").public
    members.invite("gpu1", KEYS[0], time.time() + 60)
    assert server.refresh()
    members.admit("gpu1", public)
    assert server.refresh()
    text = (tmp_path / "nats.conf").read_text()
    assert public in text
    assert KEYS[0] not in text
