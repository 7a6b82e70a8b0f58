"""Finds the process a trial kills, and kills it."""

import os
import signal
from pathlib import Path

from cli.cluster.state import read_state


def children_of(pid: int) -> list[int]:
    """Return the pids of a process's children."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(text) for text in children.read_text().split()] if children.exists() else []


def is_worker(pid: int) -> bool:
    """Tell an agent's worker from its other children."""
    try:
        return b"services.agent.worker.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def pid_of(folder: Path, victim: str) -> int | None:
    """Return the victim's pid now; None when no such process runs at this moment."""
    processes = {one.name: one for one in read_state(folder).processes}
    if victim != "worker":
        identity = processes[victim].identity
        return identity.pid if identity else None
    agent = processes["agent"].identity
    below = children_of(agent.pid) if agent else []
    return next((pid for pid in below if is_worker(pid)), None)


def kill(folder: Path, victim: str) -> bool:
    """Send SIGKILL to the victim; tell whether there was one to kill."""
    pid = pid_of(folder, victim)
    if pid is None:
        return False
    os.kill(pid, signal.SIGKILL)
    return True
