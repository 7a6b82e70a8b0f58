"""The ports of a cluster that other machines know."""

import dataclasses
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.cluster import ports
from cli.cluster.errors import PortTaken
from cli.cluster.ports import chosen_ports
from cli.cluster.state import write_state
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
