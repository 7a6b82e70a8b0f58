"""A process for each model, killed where it takes too long or holds too much memory.

Processes of PyTorch's models are forked from one that has imported PyTorch, torchvision and timm,
which takes longer than most models. The other frameworks start threads as they are imported, so
that each of their processes is new. All of them end with the process that started them.
"""

import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from pathlib import Path

from benchmarks.open_catalog.models import Tried
from benchmarks.open_catalog.rows import Row
from schemas.plan import Subject

PRELOADED = ["benchmarks.open_catalog.preloaded", "benchmarks.open_catalog.answering"]
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a model may take, in seconds, and how much memory of the host it may hold."""

    limit_s: float
    memory_bytes: int


Answer = Callable[[Subject], str]
"""Opens a subject and lets it answer; returns why that failed, '' where it did not."""


def tried(model: Tried, limits: Limits, answer: Answer | None = None) -> Row:
    """Return how a `model` ended within its `limits`; `answer` is what its process calls."""
    began = time.monotonic()
    reason, peak_bytes = model.fault, 0
    if model.subject is not None:
        reason, peak_bytes = _reason_of(model.subject, limits, answer)
    seconds = round(time.monotonic() - began, 2)
    return Row(model.name, model.framework, not reason, reason, seconds, peak_bytes)


def _reason_of(subject: Subject, limits: Limits, answer: Answer | None) -> tuple[str, int]:
    """Return why a subject does not answer, '' where it does, and the most memory it held."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = _context(subject.framework).Process(target=_child, args=(theirs, subject, answer))  # type: ignore[attr-defined]
    process.start()
    theirs.close()
    end_s, peak_bytes = time.monotonic() + limits.limit_s, 0
    try:
        while not ours.poll(_POLL_S):
            peak_bytes = max(peak_bytes, _peak_bytes(process.pid))
            if peak_bytes > limits.memory_bytes:
                return f"holds more than {limits.memory_bytes / 1e9:g} GB of memory", peak_bytes
            if time.monotonic() > end_s:
                return f"does not answer within {limits.limit_s:g} s", peak_bytes
        return str(ours.recv()), max(peak_bytes, _peak_bytes(process.pid))
    except EOFError:
        process.join()
        return f"its process ended with {process.exitcode}", peak_bytes
    finally:
        process.kill()
        process.join()
        ours.close()


def _context(framework: str) -> BaseContext:
    if framework != "pytorch":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def _child(answers: Connection, subject: Subject, answer: Answer | None) -> None:
    """Send why a subject does not answer to the parent, and wait to be killed by it."""
    parent = os.getppid()
    from benchmarks.open_catalog.answering import failure_of
    from services.agent.worker.preparation.fork_server import end_with_parent

    end_with_parent(parent)
    try:
        reason = (answer or failure_of)(subject)
    except Exception as error:  # noqa: BLE001 - one model's fault is its row
        reason = f"{type(error).__name__}: {error}"
    answers.send(reason)
    time.sleep(60.0)


def _peak_bytes(pid: int | None) -> int:
    """Return the most memory that a process held, 0 where it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
