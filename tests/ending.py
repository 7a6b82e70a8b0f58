"""Clusters that end with the tests that started them, also where these are killed."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: The end of its input is all that a shell learns of a process that was killed.
STOP = 'read -r _; "$0" -m cli.main down --data "$1" && shift && rm -rf "$@"'


@contextmanager
def stopped_in_the_end(data: Path, *folders: Path) -> Iterator[None]:
    """Stop the cluster of a data folder, then remove `folders`, as the block or our process ends.

    `mlscope up --detach` starts clusters that outlive their starters.
    """
    with subprocess.Popen(
        ["sh", "-c", STOP, sys.executable, data, *folders],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": ""},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    ) as shell:
        yield
    assert shell.returncode == 0, f"the cluster of {data} was not stopped"
