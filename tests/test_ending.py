"""A cluster ends with the process of its test, however that ends."""

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE

from cli.cluster.processes import identify
from cli.cluster.state import write_state
from tests.cli.cluster.test_state import a_state

PROGRAM = """
import sys
from pathlib import Path
from tests.ending import stopped_in_the_end

with stopped_in_the_end(*map(Path, sys.argv[1:])):
    print("started", flush=True)
    sys.stdin.read()
"""


def test_a_killed_process_leaves_no_cluster(tmp_path: Path) -> None:
    folder = tmp_path / "test"
    folder.mkdir()
    with subprocess.Popen(["sleep", "60"]) as supervisor:
        write_state(folder, replace(a_state(), supervisor=identify(supervisor.pid)))
        command = [sys.executable, "-c", PROGRAM, str(folder), str(folder)]
        with subprocess.Popen(command, stdin=PIPE, stdout=PIPE) as owner:
            assert owner.stdout is not None
            assert owner.stdout.readline() == b"started\n"
            owner.kill()
        assert supervisor.wait(30) == -signal.SIGTERM
