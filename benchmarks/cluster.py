"""A local cluster for benchmarks: started with the user's own command, gone afterwards."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MLSCOPE = (sys.executable, "-m", "cli.main")


def environment(folder: Path, **settings: str) -> dict[str, str]:
    """Return this environment with the cluster's data in `folder` and `settings` on top."""
    return {**os.environ, "MLSCOPE_DATA": str(folder), **settings}


def mlscope(folder: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run the command line against the cluster in `folder`. Raises CalledProcessError."""
    return subprocess.run(
        [*MLSCOPE, *arguments],
        env=environment(folder, **settings),
        text=True,
        capture_output=True,
        check=True,
    )


@contextmanager
def new_folder() -> Iterator[Path]:
    """Lend a data folder that PostgreSQL's own user may pass through."""
    folder = Path(tempfile.mkdtemp(prefix="mlscope-bench-"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running(folder: Path, **settings: str) -> Iterator[Path]:
    """Keep a cluster up in `folder` for the length of the block, which SIGTERM ends, too."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        mlscope(folder, "up", "--detach", **settings)
        yield folder
    finally:
        mlscope(folder, "down", **settings)
        signal.signal(signal.SIGTERM, before)
