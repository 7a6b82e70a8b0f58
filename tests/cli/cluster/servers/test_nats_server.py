"""The server's configuration gives every user limits; a server that refuses to store is noticed."""

from dataclasses import replace
from pathlib import Path

import pytest

from cli.cluster.servers import nats_server
from cli.cluster.servers.nats_conf import NatsLayout, Routes, nats_conf
from cli.cluster.servers.nats_server import NatsServer, StorageWatch

LAYOUT = NatsLayout("/data/na ts", "127.0.0.1", 4222, "127.0.0.1", 8222)
COMPLAINT = b"[ERR] JetStream failed to store a msg: write x: no space left on device\n"


def test_what_is_acknowledged_is_on_disk() -> None:
    text = nats_conf(LAYOUT, {"requester": "UREQ"})
    assert "sync_interval: always" in text
    assert 'store_dir: "/data/na ts"' in text
    assert 'listen: "127.0.0.1:4222"' in text


def test_a_log_file_has_a_limit_where_one_is_asked_for() -> None:
    text = nats_conf(replace(LAYOUT, max_log_bytes=1 << 20), {"requester": "UREQ"})
    assert "logfile_size_limit: 1048576\n" in text
    assert "logfile_size_limit" not in nats_conf(LAYOUT, {"requester": "UREQ"})


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


@pytest.fixture
def log(tmp_path: Path) -> Path:
    log = tmp_path / "nats.log"
    say(log, COMPLAINT)
    return log


def test_it_is_stuck_when_it_complains_while_there_is_room(tmp_path: Path, log: Path) -> None:
    watch = StorageWatch(tmp_path, log)
    assert not watch.is_stuck(), "what the log held at the start is past"
    say(log, COMPLAINT)
    assert watch.is_stuck()
    assert not watch.is_stuck(), "it has not complained again"


def test_a_complaint_counts_once_the_disk_has_room(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream that is seldom written to would else stay broken unnoticed."""
    watch = StorageWatch(tmp_path, log)
    with monkeypatch.context() as patches:
        patches.setattr(nats_server, "ROOM_BYTES", 1 << 60)
        say(log, COMPLAINT)
        assert not watch.is_stuck()
    say(log, b"[INF] all is well\n")
    assert not watch.is_stuck(), "the room may be gone again at once"
    assert watch.is_stuck()
    assert not watch.is_stuck(), "it is restarted once"


def test_a_disk_that_is_gone_has_no_room(tmp_path: Path, log: Path) -> None:
    watch = StorageWatch(tmp_path / "gone", log)
    for _ in range(3):
        say(log, COMPLAINT)
        assert not watch.is_stuck()


def test_what_a_server_said_before_its_newest_start_does_not_count(
    tmp_path: Path, log: Path
) -> None:
    watch = StorageWatch(tmp_path, log)
    watch.is_stuck()
    say(log, COMPLAINT + b"[INF] Server Exiting..\n[INF] Starting nats-server\n")
    assert not watch.is_stuck(), "it was restarted for that already"
    say(log, COMPLAINT)
    assert watch.is_stuck()


def test_a_disk_that_is_full_is_no_reason(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_server, "ROOM_BYTES", 1 << 60)
    watch = StorageWatch(tmp_path, log)
    for _ in range(3):
        say(log, COMPLAINT)
        assert not watch.is_stuck()


def test_a_log_that_was_cut_is_read_from_its_start(tmp_path: Path, log: Path) -> None:
    watch = StorageWatch(tmp_path, log)
    say(log, b"much\n" * 100)
    watch.is_stuck()
    log.write_bytes(COMPLAINT)
    assert watch.is_stuck()


def test_no_log_is_no_complaint(tmp_path: Path) -> None:
    watch = StorageWatch(tmp_path, tmp_path / "none.log")
    assert not watch.is_stuck()
    assert not watch.is_stuck()
