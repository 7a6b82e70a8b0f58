"""The server's configuration gives every user limits; a server that refuses to store is noticed."""

import asyncio
import base64
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import nkeys
import pytest

from cli.cluster.servers import nats_server as nats_server_module
from cli.cluster.servers.nats_conf import NatsLayout, Routes, nats_conf
from cli.cluster.servers.nats_server import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    NatsServer,
    StorageWatch,
    complaint,
)
from mlscope.bus.nats import connect
from mlscope.provision import provision
from mlscope.settings import Settings
from tests.disks import fill, mount_small, unmount
from tests.flow.clusters import until

LAYOUT = NatsLayout("/data/na ts", "127.0.0.1", 4222, "127.0.0.1", 8222)
NO_ROOM = "no space left on device"
COMPLAINT = (
    b"[7] 2026/11/29 23:31:36.900242 [ERR] JetStream failed to store a msg on stream"
    b" 'MLSCOPE > A': write /data/A/msgs/1.blk: no space left on device\n"
)
START = b"[8] 2026/11/29 23:31:37.900242 [INF] Starting nats-server\n"


def test_what_is_acknowledged_is_on_disk() -> None:
    text = nats_conf(LAYOUT, {"requester": "UREQ"})
    assert "sync_interval: always" in text
    assert 'store_dir: "/data/na ts"' in text
    assert 'listen: "127.0.0.1:4222"' in text


def test_every_user_has_permissions() -> None:
    text = nats_conf(LAYOUT, {"requester": "UREQ", "agent": "UAGENT"})
    assert text.count("nkey:") == text.count("permissions:") == 2
    assert '"mlscope.v1.request.evaluate"' in text


def test_an_unknown_name_gets_no_user() -> None:
    with pytest.raises(KeyError):
        nats_conf(LAYOUT, {"stranger": "U"})


def test_routes_ask_for_certificates_of_both_sides() -> None:
    routes = Routes(
        "b1", "10.0.0.1:6222", ("b2:6222", "b3:6222"), "c.pem", "c.key", "a.pem", "b1:1"
    )
    text = nats_conf(replace(LAYOUT, routes=routes), {"requester": "UREQ"})
    assert 'routes: ["nats-route://b2:6222", "nats-route://b3:6222"]' in text
    assert '"ca_file": "a.pem", "verify": true' in text
    assert 'server_name: "b1"' in text
    assert 'client_advertise: "b1:1"' in text
    assert "cluster {" not in nats_conf(LAYOUT, {"requester": "UREQ"})


def test_the_configuration_is_not_written_through_a_link_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may write into the folder could put one there once an old file is removed."""
    (tmp_path / "other").write_text("as it was")

    def replaced_by_a_link(path: Path, missing_ok: bool) -> None:
        path.symlink_to(tmp_path / "other")

    monkeypatch.setattr(Path, "unlink", replaced_by_a_link)
    with pytest.raises(FileExistsError):
        NatsServer(tmp_path).refresh()
    assert (tmp_path / "other").read_text() == "as it was"


def say(log: Path, text: bytes) -> None:
    with log.open("ab") as file:
        file.write(text)


def refuses() -> bool:
    return True


def stores() -> bool:
    return False


@pytest.fixture
def log(tmp_path: Path) -> Path:
    log = tmp_path / "nats.log"
    say(log, COMPLAINT)
    return log


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Fill the disk, until what is lent is undone."""
    monkeypatch.setattr(nats_server_module, "ROOM_BYTES", 1 << 60)
    return monkeypatch


def test_it_is_stuck_when_it_complains_while_there_is_room(tmp_path: Path, log: Path) -> None:
    watch = StorageWatch(tmp_path, log, refuses)
    assert not watch.is_stuck(), "what the log held at the start is past"
    say(log, COMPLAINT)
    assert watch.is_stuck()
    assert not watch.is_stuck(), "it has not complained again"


@pytest.mark.parametrize(
    "line",
    [
        b"Filestore [A] Critical write error: write /data/A/1.blk: no space left on device",
        b"RAFT [S1Nunr6R - S-R3F] Critical write error: write /x: no space left on device",
        b"JetStream stream 'M > A' critical write error: sync /x: no space left on device",
    ],
)
def test_each_complaint_of_a_full_disk_counts(line: bytes) -> None:
    began = b"[1] 2026/11/29 23:31:36.900242 [ERR] "
    assert complaint(began + line + b"\n")
    assert complaint(START + began + line + b"\n[1] more\n")
    assert complaint(began + line + b"\n" + START) is False
    assert complaint(began + line + b" (10077)\n") is None


def test_a_complaint_counts_once_the_disk_has_room(
    tmp_path: Path, log: Path, full: pytest.MonkeyPatch
) -> None:
    """A stream that is seldom written to would else stay broken unnoticed."""
    watch = StorageWatch(tmp_path, log, stores)
    say(log, COMPLAINT)
    assert not watch.is_stuck()
    full.undo()
    say(log, b"[INF] all is well\n")
    assert not watch.is_stuck(), "the room may be gone again at once"
    assert watch.is_stuck(), "a server before 2.14 does not say that it refuses"
    assert not watch.is_stuck(), "it is restarted once"


def test_a_disk_that_is_gone_has_no_room(tmp_path: Path, log: Path) -> None:
    watch = StorageWatch(tmp_path / "gone", log, refuses)
    for _ in range(3):
        say(log, COMPLAINT)
        assert not watch.is_stuck()


def test_a_folder_that_is_yet_to_be_made_is_no_full_disk(tmp_path: Path, log: Path) -> None:
    watch = StorageWatch(tmp_path / "nats", log, stores)
    watch.is_stuck()
    (tmp_path / "nats").mkdir()
    say(log, COMPLAINT)
    assert [watch.is_stuck() for _ in range(3)] == [False] * 3


def test_what_a_server_said_before_its_newest_start_does_not_count(
    tmp_path: Path, log: Path
) -> None:
    watch = StorageWatch(tmp_path, log, refuses)
    watch.is_stuck()
    say(log, COMPLAINT + b"[INF] Server Exiting..\n" + START)
    assert not watch.is_stuck(), "it was restarted for that already"
    say(log, COMPLAINT)
    assert watch.is_stuck()


@pytest.mark.usefixtures("full")
def test_a_disk_that_is_full_is_no_reason(tmp_path: Path, log: Path) -> None:
    watch = StorageWatch(tmp_path, log, refuses)
    for _ in range(3):
        say(log, COMPLAINT)
        assert not watch.is_stuck()


def test_a_disk_that_was_full_before_the_start_is_no_reason(
    tmp_path: Path, log: Path, full: pytest.MonkeyPatch
) -> None:
    watch = StorageWatch(tmp_path, log, stores)
    watch.is_stuck()
    full.undo()
    say(log, START)
    watch.is_stuck()
    say(log, COMPLAINT)
    assert not watch.is_stuck()


def test_a_restart_that_did_not_help_is_tried_ever_more_seldom(tmp_path: Path, log: Path) -> None:
    """A disk may have room and yet take nothing: its quota or its inodes are used up."""
    now_s = 100.0
    watch = StorageWatch(tmp_path, log, refuses, lambda: now_s)
    restarts_s = []
    for _ in range(6 * 720):
        now_s += 5.0
        say(log, COMPLAINT)
        if watch.is_stuck():
            restarts_s.append(now_s)
    waits_s = [later - sooner for sooner, later in pairwise(restarts_s)]
    assert waits_s[:3] == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S]
    assert waits_s[-1] == LONGEST_PAUSE_S
    assert len(waits_s) < 16


def test_a_disk_that_was_full_again_is_no_restart_in_vain(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = StorageWatch(tmp_path, log, refuses, lambda: 100.0)
    for _ in range(20):
        with monkeypatch.context() as patches:
            patches.setattr(nats_server_module, "ROOM_BYTES", 1 << 60)
            say(log, COMPLAINT)
            assert not watch.is_stuck()
        assert [watch.is_stuck() for _ in range(3)] == [False, True, False]
        say(log, START)


def test_a_line_counts_once_it_is_whole(tmp_path: Path, log: Path) -> None:
    watch = StorageWatch(tmp_path, log, refuses)
    watch.is_stuck()
    say(log, COMPLAINT[:60])
    assert not watch.is_stuck()
    say(log, COMPLAINT[60:])
    assert watch.is_stuck()


def test_a_log_that_was_cut_is_read_from_its_start(tmp_path: Path, log: Path) -> None:
    watch = StorageWatch(tmp_path, log, refuses)
    say(log, b"much\n" * 100)
    watch.is_stuck()
    log.write_bytes(COMPLAINT)
    assert watch.is_stuck()


def test_no_log_is_no_complaint(tmp_path: Path) -> None:
    watch = StorageWatch(tmp_path, tmp_path / "none.log", refuses)
    assert not watch.is_stuck()
    assert not watch.is_stuck()


def say_to(server: NatsServer, fields: Mapping[str, str], *commands: str, seed: str = "") -> None:
    """Connect with these fields, and with a key if there is a seed, and send commands."""
    with (
        socket.create_connection((server.host, server.port), timeout=5.0) as connection,
        connection.makefile("rb") as answers,
    ):
        greeting = json.loads(answers.readline().removeprefix(b"INFO "))
        key = {}
        if seed:
            pair = nkeys.from_seed(seed.encode())
            signature = base64.urlsafe_b64encode(pair.sign(greeting["nonce"].encode()))
            key = {"nkey": pair.public_key.decode(), "sig": signature.rstrip(b"=").decode()}
        words = {"verbose": False, "pedantic": False, **key, **fields}
        connection.sendall("\r\n".join((f"CONNECT {json.dumps(words)}", *commands, "")).encode())
        # Not cut off before the server has read it all.
        connection.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):
            answers.read()


def settings_of(server: NatsServer, name: str) -> Settings:
    """Return the settings of one connection."""
    return Settings(nats_url=server.url, nats_seed_file=server.seed_files[name])


LINES = f"x\n{COMPLAINT.decode()}x"
NAMED_SO = dict.fromkeys(("name", "lang", "version"), f"%[1]s%s%c{LINES}")


@pytest.mark.parametrize(
    ("fields", "commands", "has_key"),
    [
        ({"user": NO_ROOM, "pass": "x"}, (), False),
        ({"user": LINES, "pass": "x"}, (), False),
        ({"nkey": LINES, "sig": LINES, "jwt": LINES}, (), False),
        ({"user": LINES, "pass": LINES, **NAMED_SO}, (), False),
        ({"name": NO_ROOM}, ("PUB forbidden 0", ""), True),
        (NAMED_SO, ("PUB forbidden 0", ""), True),
        (NAMED_SO, (f"-ERR '{COMPLAINT.decode().strip()}'",), True),
        ({"name": "%s"}, (f"-ERR '\r{COMPLAINT.decode().strip()}",), True),
    ],
)
def test_what_clients_name_is_no_complaint(
    nats_server: NatsServer, fields: dict[str, str], commands: tuple[str, ...], has_key: bool
) -> None:
    """Nobody needs a key to have the name of a user logged."""
    log = nats_server.folder / "logs" / "nats.log"
    watch = StorageWatch(nats_server.store, log, nats_server.refuses_to_store)
    certain = StorageWatch(nats_server.store, log, refuses)
    assert not watch.is_stuck()
    assert not certain.is_stuck()
    before_bytes = log.stat().st_size
    say_to(nats_server, fields, *commands, seed=nats_server.seeds["requester"] if has_key else "")
    until(lambda: b"[ERR]" in log.read_bytes()[before_bytes:])
    for _ in range(3):
        assert not certain.is_stuck(), "not even where the server would confirm it"
        assert not watch.is_stuck()


def test_a_line_that_a_client_wrote_whole_is_no_reason(nats_server: NatsServer, log: Path) -> None:
    """A slow consumer with a key and the name `%[3]c...%[3]c`: `%c` of 10 chunks is a new line."""
    watch = StorageWatch(nats_server.store, log, nats_server.refuses_to_store)
    forged = b'[8] 2026/11/29 23:39:33.338343 [INF] 127.0.0.1:47434 - cid:5 - "v1:x:\n' + COMPLAINT
    say(log, forged + b'" - Slow Consumer %!s(int64=540018): WriteDeadline of %!v(MISSING)\n')
    assert complaint(log.read_bytes())
    assert [watch.is_stuck() for _ in range(3)] == [False] * 3


@pytest.fixture
def small_store(data_folder: Path) -> Iterator[Path]:
    """Lend a disk of its own for the streams below `data_folder`; only root may make one."""
    store = data_folder / "nats"
    store.mkdir()
    if reason := mount_small(store, 64):
        pytest.skip(f"NO FULL DISK IS TRIED: {reason}")
    try:
        yield store
    finally:
        unmount(store)


@pytest.mark.parametrize("is_seen_full", [False, True])
async def test_a_server_that_refuses_to_store_is_noticed_and_helped(
    data_folder: Path, small_store: Path, is_seen_full: bool
) -> None:
    with NatsServer(data_folder) as server:
        log = data_folder / "logs" / "nats.log"
        watch = StorageWatch(small_store, log, stores if is_seen_full else server.refuses_to_store)
        await provision(settings_of(server, "provisioner"))
        assert not server.refuses_to_store()
        fill(small_store / "filler")
        async with connect(settings_of(server, "registry"), "registry") as bus:
            with suppress(TimeoutError):
                await asyncio.wait_for(bus.put("catalog", "agent_1", b"x" * 500_000), 1.0)
        if is_seen_full:
            assert not watch.is_stuck()
        (small_store / "filler").unlink()
        assert complaint(log.read_bytes())
        assert server.refuses_to_store()
        assert [watch.is_stuck() for _ in range(3)] == [False, True, False]
        server.stop()
        server.start()
        assert not server.refuses_to_store()
        assert not complaint(log.read_bytes())
        assert await asyncio.wait_for(stored(server), 10.0)


async def stored(server: NatsServer) -> int:
    """Store something and return its revision."""
    async with connect(settings_of(server, "registry"), "registry") as bus:
        return await bus.put("catalog", "agent_1", b"x")


def test_a_server_that_does_not_answer_says_nothing(tmp_path: Path) -> None:
    assert not NatsServer(tmp_path).refuses_to_store()
