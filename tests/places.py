"""Where the servers of tests keep their files: in memory where there is room, else on the disk."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cli.cluster.processes import last_lines

MEMORY = Path("/dev/shm")
LISTINGS = Path(__file__).parent / "mlscope" / "manifests" / "listings"
"""The papers' own manifests."""
ROOM_BYTES = 2 << 30
_OF_SERVERS = ("PostgreSQL.", ".org.chromium")
"""Files in shared memory of servers and browsers that other tests start meanwhile."""


def shared_files() -> set[str]:
    """Return the names of files in shared memory; tests keep folders there, too."""
    names = (path.name for path in MEMORY.iterdir() if not path.is_dir())
    return {name for name in names if not name.startswith(_OF_SERVERS)}


def roomy(folder: Path, room_bytes: int = ROOM_BYTES) -> bool:
    """Tell whether servers can live below `folder`: ours to write, room left, programs may run.

    PostgreSQL's programs are copied there where its own user cannot reach the installed ones.
    """
    if not os.access(folder, os.W_OK | os.X_OK):
        return False
    told = os.statvfs(folder)
    return not told.f_flag & os.ST_NOEXEC and told.f_bavail * told.f_frsize >= room_bytes


def server_folder(name: str = "test", memory: Path = MEMORY) -> Path:
    """Make a folder for a server: PostgreSQL's own user may pass through it, unlike `tmp_path`."""
    base = memory if roomy(memory) else None
    folder = Path(tempfile.mkdtemp(prefix=f"mlscope-{name}-", dir=base))
    folder.chmod(0o711)
    return folder


@contextmanager
def lent_folder(name: str = "test") -> Iterator[Path]:
    """Lend a server's folder and remove it."""
    folder = server_folder(name)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def state_of(folder: Path, log: Path) -> str:
    """Say what a server that fails may lack: room in its folder, and the end of its log."""
    usage = shutil.disk_usage(folder)
    room = f"{folder}: {usage.free >> 20} MiB free of {usage.total >> 20}"
    return f"{room}\n{last_lines(log, 30)}"
