"""A data folder holds keys and a lock; processes have identities, servers free ports."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cli.cluster import ports
from cli.cluster.errors import AlreadyUp, NotReady
from cli.cluster.keys import secret_files
from cli.cluster.processes import Identity, identify, is_alive
from cli.cluster.state import folder_lock, is_locked


def test_keys_are_made_once(tmp_path: Path) -> None:
    made = secret_files.ensure_keys(tmp_path, ["agent", "requester"])
    again = secret_files.ensure_keys(tmp_path, ["agent", "requester", "gateway"])
    assert made["agent"] == again["agent"]
    assert len({key.public for key in again.values()}) == 3
    assert (made["agent"].seed[:2], made["agent"].public[:1]) == ("SU", "U")


def test_a_password_is_not_in_its_own_repr(tmp_path: Path) -> None:
    secret = secret_files.ensure_password(tmp_path / "a.pw")
    assert secret_files.ensure_password(tmp_path / "a.pw") == secret
    assert len(secret.value) == 64
    assert secret.value not in repr(secret)


def test_a_taken_port_is_not_chosen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        assert not ports.is_free(taken)
        assert ports.answers(taken)
        chosen = ports.choose(("a", "b"), {"a": taken})
    assert taken not in chosen.values()
    assert chosen["a"] != chosen["b"]


def test_a_reused_pid_is_another_process() -> None:
    own = identify(os.getpid())
    assert is_alive(own)
    assert not is_alive(Identity(own.pid, own.started + "0"))


def test_a_zombie_is_not_alive() -> None:
    with subprocess.Popen(
        [sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE
    ) as process:
        identity = identify(process.pid)
        assert is_alive(identity)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not is_alive(identity)


def test_a_folder_is_held_once(tmp_path: Path) -> None:
    assert not is_locked(tmp_path)
    with folder_lock(tmp_path):
        assert is_locked(tmp_path)
        with pytest.raises(AlreadyUp), folder_lock(tmp_path):
            pass
    assert not is_locked(tmp_path)


def test_an_error_is_its_sentence_and_its_fields(tmp_path: Path) -> None:
    text = str(NotReady("nats", tmp_path / "nats.log", "one\ntwo"))
    assert text.splitlines()[0].startswith("A server did not become ready")
    assert text.splitlines()[1:] == [
        "  name: nats",
        f"  log: {tmp_path / 'nats.log'}",
        "  last_lines: one",
        "    two",
    ]
