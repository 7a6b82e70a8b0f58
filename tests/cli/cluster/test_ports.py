"""The ports of a cluster that other machines know."""

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.cluster import ports
from cli.cluster.errors import PortTaken
from cli.cluster.ports import LOOPBACK, chosen_ports, free_port, held, is_free
from cli.cluster.state import write_state
from tests.cli.cluster.test_state import a_state
from tests.cli.cluster.test_supervisor import Cluster

ADDRESS = "127.0.0.2"


@pytest.fixture
def taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Lend the pages' port of an earlier start, which another process has by now."""
    monkeypatch.setattr(ports, "_RELEASED_WITHIN_S", 0.0)
    with socket.create_server((ADDRESS, 0)) as stranger:
        port: int = stranger.getsockname()[1]
        earlier = dataclasses.replace(
            a_state(), nats_url=f"tls://{ADDRESS}:1", ports={"gateway": port}
        )
        write_state(tmp_path, earlier)
        yield port


def test_a_port_that_other_machines_know_is_not_exchanged(tmp_path: Path, taken: int) -> None:
    refusal = pytest.raises(PortTaken, match=f"{ADDRESS}:{taken}")
    with refusal, chosen_ports(tmp_path, {}, ADDRESS):
        pass


@pytest.mark.parametrize(
    ("address", "environ"),
    [(ADDRESS, {"MLSCOPE_GATEWAY_PORT": "45671"}), ("127.0.0.3", {}), ("127.0.0.1", {})],
)
def test_a_port_that_nobody_relies_on_is_exchanged(
    tmp_path: Path, taken: int, address: str, environ: dict[str, str]
) -> None:
    with chosen_ports(tmp_path, environ, address) as chosen:
        assert chosen["gateway"]


TAKING = """
import os, socket, sys
os.setgid(65534), os.setuid(65534)
with socket.socket() as taker:
    taker.setsockopt(socket.SOL_SOCKET, int(sys.argv[2]), 1)
    taker.bind((sys.argv[1], int(sys.argv[3])))
    taker.listen()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run another user's program")
@pytest.mark.parametrize("option", [socket.SO_REUSEADDR, socket.SO_REUSEPORT])
@pytest.mark.parametrize("place", [LOOPBACK, "0.0.0.0"])
def test_nobody_else_takes_a_port_that_is_held(option: int, place: str) -> None:
    port = free_port()
    command = [sys.executable, "-I", "-c", TAKING, place, str(option), str(port)]
    with held(port):
        refused = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "Address already in use" in refused.stderr
    assert subprocess.run(command, check=False).returncode == 0


def test_a_port_that_another_program_took_just_now_is_named() -> None:
    with socket.create_server((LOOPBACK, 0)) as stranger:
        port = stranger.getsockname()[1]
        with pytest.raises(PortTaken, match=f"{LOOPBACK}:{port}"), held(port):
            pass


def has_socket(pid: int, inode: int) -> bool:
    """Tell whether a process has a socket open."""
    opened = {str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir()}
    return f"socket:[{inode}]" in opened


def test_the_pages_port_stays_taken_and_the_gateway_alone_gets_it(data_folder: Path) -> None:
    """Browsers would send the cookie of a session to whoever has it for a moment."""
    cluster = Cluster(data_folder, "registry", "gateway")
    try:
        port = cluster.until("mlscope running").ports["gateway"]
        given = json.loads((data_folder / "given-gateway.json").read_text())
        identities = cluster.identities()
        pid = identities["gateway"].pid
        inode = Path(f"/proc/{pid}/fd/{given['MLSCOPE_GATEWAY_FD']}").stat().st_ino
        having = {name for name, each in identities.items() if has_socket(each.pid, inode)}
        assert having == {"gateway"}
        others = json.loads((data_folder / "given-registry.json").read_text())
        assert "MLSCOPE_GATEWAY_FD" not in others
        (data_folder / "die-gateway").touch()
        os.kill(pid, signal.SIGKILL)
        cluster.until("2 restarts")
        assert has_socket(cluster.process.pid, inode)
        assert not is_free(port)
        # Who asks while none runs is not refused: the next one answers.
        socket.create_connection((LOOPBACK, port)).close()
    finally:
        cluster.end()
    assert is_free(port)
