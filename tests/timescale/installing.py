"""Installing the pinned packages of this folder once, however many test processes want them."""

import fcntl
import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

NPM_CI = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
_INSTALL_S = 100


def install(folder: Path, command: Sequence[str] = NPM_CI) -> None:
    """Install what `package-lock.json` pins, unless it is there. Raises subprocess' errors."""
    with _alone_in(folder):
        if not is_installed(folder):
            subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=_INSTALL_S)


def is_installed(folder: Path) -> bool:
    """Whether `node_modules` is whole and of these pins: npm notes them there when it is done."""
    noted = folder / "node_modules" / ".package-lock.json"
    return noted.exists() and _pins(noted) == _pins(folder / "package-lock.json")


def _pins(lock: Path) -> dict[str, str]:
    packages = json.loads(lock.read_text())["packages"]
    return {name: each["version"] for name, each in packages.items() if name}


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Keep other processes of this checkout out, until this one is through or dead.

    The lock is held on `package.json` itself: npm empties `node_modules`, and no file is left.
    """
    with (folder / "package.json").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
