"""What people are shown of a cluster."""

import pytest

from cli.cluster.processes import Identity
from cli.cluster.state import ClusterState, status_table


@pytest.mark.parametrize(
    ("password_file", "told"),
    [
        ("/d/keys/database.pw", "(PostgreSQL; password: /d/keys/database.pw)"),
        ("", "(PostgreSQL)"),
    ],
)
def test_the_status_names_the_files_of_the_key_and_of_the_password(
    password_file: str, told: str
) -> None:
    state = ClusterState(
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
    lines = status_table(state, 0.0, "PostgreSQL").splitlines()
    assert lines[2] == "nats      nats://127.0.0.1:1  (key: /d/keys/requester.nk)"
    assert lines[3] == f"database  postgresql://mlscope@127.0.0.1:2/mlscope  {told}"
