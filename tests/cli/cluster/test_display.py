"""What people see of a cluster."""

import pytest

from cli.cluster.display import status_table
from tests.cli.cluster.test_state import a_state


@pytest.mark.parametrize(
    ("password_file", "database_note"),
    [
        ("/d/keys/database.pw", "(PostgreSQL; password: /d/keys/database.pw)"),
        ("", "(PostgreSQL)"),
    ],
)
def test_the_status_names_the_files_of_the_key_and_of_the_password(
    password_file: str, database_note: str
) -> None:
    lines = status_table(a_state(password_file), 0.0, "PostgreSQL", "http://p").splitlines()
    assert lines[1] == "pages     http://p"
    assert lines[2] == "nats      nats://127.0.0.1:1  (key: /d/keys/requester.nk)"
    assert lines[3] == f"database  postgresql://mlscope@127.0.0.1:2/mlscope  {database_note}"
