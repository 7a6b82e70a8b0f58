"""What a step took, how much memory a process had, and what was printed kept as a result."""

import contextlib
import io
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

PRIORITY = 50
"""Of a real-time thread, as `chrt -f 50` gives it."""
RESULTS = Path(__file__).with_name("results")


class Timed:
    """Wall and CPU seconds by step; CPU time of ended children counts."""

    def __init__(self) -> None:
        """Begin now."""
        self.seconds: dict[str, tuple[float, float]] = {}
        self._last = self._now()

    def note(self, name: str) -> None:
        """End a step."""
        now = self._now()
        self.seconds[name] = (now[0] - self._last[0], now[1] - self._last[1])
        self._last = self._now()

    @staticmethod
    def _now() -> tuple[float, float]:
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.perf_counter(), time.process_time() + ended.ru_utime + ended.ru_stime


def peak_bytes(pid: int | str = "self") -> int:
    """Return the most memory a process held so far (VmHWM; ru_maxrss would count its parent's)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    sizes_kib = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(sizes_kib[0]) * 1024 if sizes_kib else 0


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process and all below it, those that ended too."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    seconds = sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return seconds + sum(cpu_s(int(child)) for child in children)


@contextlib.contextmanager
def keeping(name: str, *, is_wanted: bool) -> Iterator[None]:
    """Have what is printed written to results/`name`.txt too, with machine and commit on top."""
    if not is_wanted:
        yield
        return
    both = _Both(sys.stdout)
    head = f"{machine()}; load average {os.getloadavg()[0]:.1f} at its begin\n\n"
    with contextlib.redirect_stdout(both):
        yield
    (RESULTS / f"{name}.txt").write_text(head + both.text.getvalue())


@contextlib.contextmanager
def undisturbed(*, is_wanted: bool) -> Iterator[str]:
    """Take the core before ordinary programs where the system lets us; lend what was done."""
    try:
        if not is_wanted:
            raise PermissionError
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    except OSError:
        yield "ordinary priority"
        return
    try:
        yield f"real-time priority {PRIORITY} (SCHED_FIFO)"
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def commit() -> str:
    """Return the commit of this code, "unknown" where there is no repository."""
    command = ("git", "describe", "--always", "--dirty", "--exclude=*")
    described = subprocess.run(command, capture_output=True, text=True, check=False, cwd=RESULTS)
    return described.stdout.strip() or "unknown"


def machine() -> str:
    """Return the commit, the day and the machine, as results begin."""
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    cores = f"{os.cpu_count()} cores {models[0] if models else platform.machine()}"
    return f"commit {commit()} · {day} · {cores} · Python {platform.python_version()}"


class _Both(io.TextIOBase):
    """Writes to a stream and remembers it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.text = io.StringIO()

    def write(self, text: str) -> int:
        self.text.write(text)
        self._stream.write(text)
        self._stream.flush()
        return len(text)
