"""The ports of a cluster that other machines know."""

import dataclasses
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.cluster import ports
from cli.cluster.errors import PortTaken
from cli.cluster.ports import LOOPBACK, chosen_ports, free_port, held
from cli.cluster.state import write_state
from services.gateway.service import _listening
from tests.cli.cluster.test_state import a_state

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
def test_nobody_else_takes_the_pages_port_while_no_gateway_runs(option: int, place: str) -> None:
    """Browsers would send whoever has it the cookie of a session."""
    port = free_port()
    command = [sys.executable, "-I", "-c", TAKING, place, str(option), str(port)]
    with held(port, LOOPBACK):
        for _start in range(2):
            refused = subprocess.run(command, capture_output=True, text=True, check=False)
            assert "Address already in use" in refused.stderr
            with _listening(LOOPBACK, port), socket.create_connection((LOOPBACK, port)):
                pass
    assert subprocess.run(command, check=False).returncode == 0


def test_a_port_of_another_program_is_in_use() -> None:
    with socket.create_server((LOOPBACK, 0)) as stranger:
        port = stranger.getsockname()[1]
        with held(port, LOOPBACK), pytest.raises(OSError, match="in use"):
            _listening(LOOPBACK, port)
