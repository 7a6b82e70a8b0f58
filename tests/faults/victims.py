"""Finds the process a trial strikes, and tells what became of it."""

from pathlib import Path

from cli.cluster.processes import is_alive
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
    identity = processes["agent" if victim == "worker" else victim].identity
    if identity is None or not is_alive(identity):
        return None
    if victim != "worker":
        return identity.pid
    return next((pid for pid in children_of(identity.pid) if is_worker(pid)), None)


def family_of(pid: int) -> list[int]:
    """Return the pids of a process and of all below it."""
    return [pid, *(other for child in children_of(pid) for other in family_of(child))]


def state_of(pid: int) -> str:
    """Return a process's state as the kernel writes it (R, S, T, Z); '' when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()[0]
    except OSError:
        return ""


def ticks_of(pid: int) -> int:
    """Return how much processor time a process has had, in ticks of the kernel."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
