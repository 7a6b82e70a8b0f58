"""The state file of a cluster, and who may read it."""

import sys
from pathlib import Path

from cli.cluster.processes import Child, Command, Identity
from cli.cluster.state import ClusterState, read_state, write_state


def a_state(password_file: str = "") -> ClusterState:
    """Return the state of a cluster that runs."""
    return ClusterState(
        phase="running",
        supervisor=Identity(1, "1"),
        nats_url="nats://127.0.0.1:1",
        monitor_url="",
        database_url="postgresql://mlscope@127.0.0.1:2/mlscope",
        database_password_file=password_file,
        gateway_url="http://127.0.0.1:3",
        requester_seed_file="/d/keys/requester.nk",
        ports={},
        processes=(),
    )


def test_nobody_else_reads_a_cluster_s_state_and_logs(tmp_path: Path) -> None:
    for _ in range(2):
        write_state(tmp_path, a_state())
    assert read_state(tmp_path) == a_state()
    log = tmp_path / "logs" / "x.log"
    child = Child(Command(name="x", argv=(sys.executable, "-c", "print(1)"), log=log, environ={}))
    child.stop()
    for private_file in (tmp_path / "cluster.json", log):
        assert private_file.stat().st_mode & 0o077 == 0, private_file
