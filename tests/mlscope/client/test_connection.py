"""Finding a cluster: arguments, else variables, else the data folder; or how to get one."""

import json
from pathlib import Path

import pytest

from cli.cluster.servers.nats_server import NatsServer
from mlscope.client import NoCluster, NotAnswering
from mlscope.client.connection import find_settings, open_bus


def test_no_cluster_says_how_to_get_one(tmp_path: object) -> None:
    with pytest.raises(NoCluster, match="mlscope up"):
        find_settings({}, data=str(tmp_path))
    found = find_settings({"MLSCOPE_NATS_URL": "nats://h:1"}, seed_file="/s")
    assert (found.nats_url, str(found.nats_seed_file)) == ("nats://h:1", "/s")


def test_a_running_cluster_is_found_by_its_folder(tmp_path: Path) -> None:
    state = {"phase": "up", "nats_url": "nats://h:1", "requester_seed_file": "/s"}
    (tmp_path / "cluster.json").write_text(json.dumps(state))
    found = find_settings({}, data=str(tmp_path))
    assert (found.nats_url, found.nats_seed_file) == ("nats://h:1", Path("/s"))
    assert found.data_folder == tmp_path
    assert find_settings({"MLSCOPE_DATA": str(tmp_path)}).nats_url == "nats://h:1"
    variables = {"MLSCOPE_NATS_SEED_FILE": "/v"}
    assert find_settings(variables, data=str(tmp_path)).nats_seed_file == Path("/v")
    argued = find_settings(variables, seed_file="/a", data=str(tmp_path))
    assert argued.nats_seed_file == Path("/a")
    named = find_settings({"MLSCOPE_NATS_URL": "nats://v:2"}, data=str(tmp_path))
    assert named.nats_url == "nats://v:2"


@pytest.mark.parametrize(
    "state", [{"phase": "stopped", "nats_url": "nats://h:1"}, {"phase": "up"}, None]
)
def test_a_cluster_that_does_not_run_is_none(tmp_path: Path, state: object) -> None:
    text = "{" if state is None else json.dumps(state)
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(NoCluster):
        find_settings({}, data=str(tmp_path))


async def test_a_bus_is_opened_with_the_requesters_key(nats_server: NatsServer) -> None:
    key = str(nats_server.seed_files["requester"])
    async with open_bus(url=nats_server.url, seed_file=key) as bus:
        assert bus.name == "requester"


async def test_no_server_is_not_answering() -> None:
    with pytest.raises(NotAnswering, match="connect"):
        async with open_bus(url="nats://127.0.0.1:9", timeout_s=0.3):
            pass
