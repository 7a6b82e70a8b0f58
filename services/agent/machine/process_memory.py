"""How much memory a process holds. Reads /proc."""

from pathlib import Path

from services.agent.machine.kernel_files import text_of

_PROCESSES = Path("/proc")
_FIELDS = frozenset({"VmRSS", "VmSwap"})


def process_memory_bytes(pid: int, processes: Path = _PROCESSES) -> int:
    """Return the memory of a process, resident or swapped out; 0 where it is unknown.

    `VmRSS` and `VmSwap` of https://man7.org/linux/man-pages/man5/proc_pid_status.5.html, in kB.
    """
    lines = text_of(processes / str(pid) / "status").splitlines()
    fields = (line.partition(":") for line in lines)
    return sum(int(value.split()[0]) * 1024 for name, _, value in fields if name in _FIELDS)
