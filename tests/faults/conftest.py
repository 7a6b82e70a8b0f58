"""One local cluster for all trials, started with the user's own command; short leases."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.places import lent_folder

SETTINGS = {"MLSCOPE_LEASE_TTL_S": "3", "MLSCOPE_HEARTBEAT_S": "0.5"}


def mlscope(folder: Path, *arguments: str) -> str:
    """Run the command line against the cluster in `folder` and return its output."""
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", *arguments],
        env={**os.environ, **SETTINGS, "MLSCOPE_DATA": str(folder)},
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, f"mlscope {arguments}: {done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def cluster() -> Iterator[Path]:
    """Lend the data folder of a running cluster."""
    with lent_folder("faults") as folder:
        try:
            mlscope(folder, "up", "--detach")
            yield folder
        finally:
            mlscope(folder, "down")
