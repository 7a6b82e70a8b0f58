"""A worker as its agent holds it: started, spoken to, watched, ended."""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Self

from mlscope.tracing.clock import now_ns
from schemas.batch import Batch
from services.agent.bringing import Goods
from services.agent.channel import AgentChannel, Words
from services.agent.errors import WorkerDied, WorkerTooLarge
from services.agent.footprint import held_bytes
from services.agent.recorder import unpack_batch
from services.agent.ring import RUNNING, Handover

_LAST_WORDS_BYTES = 2000
_CLOSE_S = 5.0
NOTHING_MORE: Mapping[str, str] = MappingProxyType({})
_ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """What a worker may use, and where its agent keeps files for it."""

    folder: Path
    ring_bytes: int
    spool_bytes: int
    #: of the worker's own process; 0 is no bound
    memory_bytes: int = 0


class WorkerProcess:
    """One worker process and this side of its channel, ring and spool."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        channel: AgentChannel,
        handover: Handover,
        scratch: Path,
        memory_bytes: int = 0,
    ) -> None:
        self._process, self._channel = process, channel
        self._memory_bytes = memory_bytes
        self._handover, self._scratch = handover, scratch
        self._is_closed = False
        #: what was brought for its session; it stays in the cache until the worker is closed
        self.goods = Goods()
        self.has_goods = False
        self.send = channel.send
        self.receive = channel.receive

    @classmethod
    async def start(
        cls, name: str, limits: WorkerLimits, environment: Mapping[str, str] = NOTHING_MORE
    ) -> Self:
        """Start a worker; `name` is a token for its folder. Raises OpenFailed.

        It has `environment` beside the agent's own.
        """
        scratch = limits.folder / name
        shutil.rmtree(scratch, ignore_errors=True)
        with contextlib.ExitStack() as ours_on_failure:
            handover = Handover.create(limits.ring_bytes, limits.spool_bytes, limits.folder)
            ours_on_failure.callback(handover.close)
            scratch.mkdir(parents=True)
            ours, theirs = socket.socketpair()
            ours_on_failure.callback(ours.close)
            with theirs:
                process = await _spawned(
                    theirs, handover, limits.spool_bytes, scratch, worker_environment(environment)
                )
            ours_on_failure.callback(process.kill)
            channel = await AgentChannel.over(ours)
            started = cls(process, channel, handover, scratch, limits.memory_bytes)
            ours_on_failure.pop_all()
            return started

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Say whether it still runs."""
        return self._process.returncode is None

    def batches(self, most: int = 64) -> Iterator[Batch]:
        """Yield handed-over batches, up to `most`; after its death, too. Raises RingBroken."""
        for _ in range(most):
            body = self._handover.pop()
            if body is None:
                return
            yield unpack_batch(body)

    @property
    def phase(self) -> int:
        """Return what it is doing: `IDLE`, `OPENING` or `RUNNING`, as `ring` has them."""
        return self._handover.phase

    def silent_s(self) -> float:
        """Return how long it has shown no sign of life while it should (0 when it need not)."""
        if self._handover.phase != RUNNING:
            return 0.0
        return self._handover.silent_ns(now_ns()) * 1e-9

    def excess(self) -> WorkerTooLarge | None:
        """Return what is wrong where it holds more memory than it may.

        Looked at from outside, now and then: a limit of the kernel's counts address space, of
        which frameworks reserve many times what they use, or needs a control group of its own,
        which a container may not make. What is taken between two looks goes beyond the bound.
        """
        if not self._memory_bytes:
            return None
        held = held_bytes(self.pid)
        return WorkerTooLarge(held, self._memory_bytes) if held > self._memory_bytes else None

    def take(self, goods: Goods) -> None:
        """Keep what was brought for its session, once."""
        self.goods, self.has_goods = goods, True

    def kill(self) -> None:
        """End it at once, with what it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def death(self) -> WorkerDied:
        """Wait for its end and return how it came, with the last it wrote."""
        code = await self._process.wait()
        return WorkerDied(_how(code), self._last_words())

    async def close(self) -> None:
        """Ask it to end, end it when it does not, and free what it used."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._channel.send({"kind": "close"})
                await self._process.wait()
        self.kill()
        await self._process.wait()
        if not self._is_closed:
            self._is_closed = True
            self._channel.close()
            self._handover.close()
            self.goods.close()
        await asyncio.to_thread(shutil.rmtree, self._scratch, ignore_errors=True)

    def _last_words(self) -> str:
        with contextlib.suppress(OSError), (self._scratch / "stderr").open("rb") as stderr:
            stderr.seek(max(0, stderr.seek(0, os.SEEK_END) - _LAST_WORDS_BYTES))
            lines = stderr.read().decode(errors="replace").strip().splitlines()
            return lines[-1][:500] if lines else ""
        return ""


async def _spawned(
    theirs: socket.socket,
    handover: Handover,
    spool_bytes: int,
    scratch: Path,
    environment: Mapping[str, str],
) -> asyncio.subprocess.Process:
    given = (theirs.fileno(), handover.ring_fd, handover.spool_fd)
    with (scratch / "stderr").open("wb") as stderr:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "services.agent.worker"),
            *(str(each) for each in (*given, spool_bytes, scratch)),
            pass_fds=given,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env=environment,
            start_new_session=True,
        )


def _how(code: int) -> str:
    if code >= 0:
        return f"exited with {code}"
    # The kernel's killer for want of memory leaves no other trace.
    why = " (out of memory?)" if -code == signal.SIGKILL else ""
    return f"was killed by {signal.Signals(-code).name}{why}"


def worker_environment(more: Mapping[str, str] = NOTHING_MORE) -> dict[str, str]:
    """Return the environment of a worker: no secrets of this service, and mlscope on its path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MLSCOPE_")}
    paths = [str(_ROOT), kept.get("PYTHONPATH", "")]
    # oneDNN reads this once; it says nothing until a collector turns its output on.
    kept["ONEDNN_VERBOSE_TIMESTAMP"] = "1"
    return {**kept, **more, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def words_of_run(kind: str, evaluation: str, run: str, attempt: int) -> Words:
    """Return the start of what is said to a worker of one run."""
    return {"kind": kind, "evaluation": evaluation, "run": run, "attempt": attempt}
