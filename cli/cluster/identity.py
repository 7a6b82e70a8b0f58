"""Who a process id belongs to: ids are reused, an id with its start time is not."""

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Identity:
    """A process for ever: its id and when it started, in the system's own words."""

    pid: int
    started: str


def _started(pid: int) -> str | None:
    """Return when `pid` started, None when it does not run (a zombie does not)."""
    if Path("/proc/self/stat").exists():
        try:
            after_name = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2]
        except OSError:
            return None
        state, *rest = after_name.split()
        return None if state in "ZX" else rest[18]
    shown = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return shown.stdout.strip() or None


def identify(pid: int) -> Identity:
    """Return the identity of a process that runs now, or of one that has just ended."""
    return Identity(pid, _started(pid) or "ended")


def is_alive(identity: Identity) -> bool:
    """Tell whether this very process still runs."""
    return _started(identity.pid) == identity.started
