"""A worker process as its host holds it: started, sent messages, watched, ended."""

import asyncio
import contextlib
import functools
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO, Self

from mlscope.redaction import is_secret_name, redact
from mlscope.tasks import end_process
from mlscope.tracing.clock import now_ns
from schemas.batch import Batch
from schemas.encoding.errors import MalformedMessage
from services.agent.errors import AgentError, RingBroken, WorkerDied
from services.agent.fetching.fetching import FetchedAssets
from services.agent.host.batch_taking import BatchTaking
from services.agent.host.containers.session_container import SessionContainer
from services.agent.host.removal import remove_tree
from services.agent.host.worker_bounds import WorkerBounds
from services.agent.host.worker_stderr import opened_stderr, tail_of
from services.agent.link.batches import unpack_batch
from services.agent.link.bounds import NO_BOUNDS, Bounds
from services.agent.link.host_channel import HostChannel
from services.agent.link.messages import CloseSession
from services.agent.link.preparation_clock import SampleUnderWay, preparing_text
from services.agent.link.ring import RUNNING, Handover
from services.agent.machine.cores import regain_cores
from services.agent.predictors.shapes import reasons_in

_log = logging.getLogger(__name__)
LIVE_INTERVAL_S = 1.0
_MOST_LINE_CHARACTERS = 500
_CLOSE_S = 5.0
# The kernel's out-of-memory killer leaves no other trace, nor does the limit of a worker's fork.
_HINTS: Mapping[int, str] = MappingProxyType(
    {signal.SIGKILL: " (out of memory?)", signal.SIGALRM: " (a library blocked its fork)"}
)
_CACHES = (
    "XDG_CACHE_HOME",
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "CUDA_CACHE_PATH",
    "MPLCONFIGDIR",
)
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
# oneDNN reads the first once; it prints nothing until a collector turns its output on. Without the
# second one ONNX Runtime starts threads, keeps an id of the machine, and sends events to Microsoft.
_FOR_EACH_WORKER: Mapping[str, str] = MappingProxyType(
    {"ONEDNN_VERBOSE_TIMESTAMP": "1", "ORT_DISABLE_TELEMETRY": "1"}
)
_ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """What a worker may use, and where its host keeps files for it."""

    folder: Path
    ring_bytes: int
    spool_bytes: int
    bounds: Bounds = NO_BOUNDS
    #: between the takes of its batches while it measures; 0: as they come
    live_interval_s: float = LIVE_INTERVAL_S
    #: names of variables that it gets although they look like secrets
    passed_variables: tuple[str, ...] = ()


class WorkerProcess:
    """One worker process and the host's side of its channel, ring and spool."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        channel: HostChannel,
        handover: Handover,
        files: tuple[Path, IO[bytes]],
        limits: WorkerLimits,
        bounds: WorkerBounds,
        container: SessionContainer | None = None,
    ) -> None:
        """Take a started `process`, and this side of its `channel` and of its `handover`.

        `files` are its own folder and the file that it writes its errors to; it was started within
        `limits` and `bounds`, in a `container` or in none.
        """
        self._process, self._channel = process, channel
        #: the container that it runs in, whose engine is its process here
        self.container = container
        self._bounds = bounds
        #: when its batches are taken
        self.taking = BatchTaking(limits.live_interval_s)
        self._handover, (self._scratch, self._stderr) = handover, files
        self._is_closed = False
        #: the files fetched for its session; they stay in the cache until the worker is closed
        self.assets = FetchedAssets()
        self.has_assets = False
        self.send = channel.send
        self.receive = channel.receive

    @classmethod
    async def start(
        cls,
        name: str,
        limits: WorkerLimits,
        environment: Mapping[str, str] = NO_VARIABLES,
        container: SessionContainer | None = None,
    ) -> Self:
        """Start a worker within `limits`; `name` is the name of its folder.

        It has the variables of `environment` in addition to the host's own, in a `container` in
        addition to the image's. Raises OpenFailed, ContainerRefused.
        """
        scratch = limits.folder / name
        remove_tree(scratch)
        async with contextlib.AsyncExitStack() as undo:
            handover = Handover.create(limits.ring_bytes, limits.spool_bytes, limits.folder)
            undo.callback(handover.close)
            # Nobody else may look at what models write.
            scratch.mkdir(parents=True, mode=0o700)
            (scratch / "tmp").mkdir()
            (scratch / "home").mkdir()
            stderr = opened_stderr(limits.folder)
            undo.callback(stderr.close)
            shared = (handover.ring_fd, handover.spool_fd)
            bounds = WorkerBounds(limits.bounds, limits.folder)
            regain_cores()
            variables = {**environment, **_caches_in(scratch)}
            if container is None:
                process, host_end = await _started_here(scratch, stderr, limits, shared, variables)
            else:
                variables |= {**_FOR_EACH_WORKER, "HOME": str((scratch / "home").absolute())}
                process, host_end = await container.start(
                    scratch.absolute(), stderr, limits.spool_bytes, shared, variables
                )
                undo.push_async_callback(container.remove)
                undo.callback(container.kill)
            undo.push_async_callback(end_process, process)
            undo.callback(host_end.close)
            channel = await HostChannel.over(host_end)
            worker = cls(process, channel, handover, (scratch, stderr), limits, bounds, container)
            undo.pop_all()
            return worker

    @property
    def pid(self) -> int:
        """Its process id; 0 where a container hides it."""
        return self._process.pid if self.container is None else self.container.pid

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self._process.returncode is None

    @property
    def waiting_bytes(self) -> int:
        """The bytes of its batches that are not taken yet."""
        return 0 if self._is_closed else self._handover.waiting_bytes

    def has_due_batches(self, *, has_ended: bool) -> bool:
        """Whether to take its batches now; `has_ended` says that a run of it has ended."""
        return self.taking.is_due(self._handover.filled, has_ended=has_ended)

    def batches(self, limit: int = 64) -> Iterator[Batch]:
        """Yield up to `limit` batches handed over; also after its death. Raises RingBroken."""
        for _ in range(limit):
            body = self._handover.pop()
            if body is None:
                return
            try:
                yield unpack_batch(body)
            except MalformedMessage as error:
                raise RingBroken(f"a batch in the ring can't be read: {error}") from error

    @property
    def phase(self) -> int:
        """Its phase: `IDLE`, `OPENING` or `RUNNING` of `ring`."""
        return self._handover.phase

    def silent_s(self) -> float:
        """Return for how many seconds it has shown no sign of life while running; else 0."""
        if self._handover.phase != RUNNING:
            return 0.0
        return self._handover.silent_ns(now_ns()) * 1e-9

    @property
    def samples_under_way(self) -> Sequence[SampleUnderWay]:
        """The samples that it prepares, or prepared when it ended; the oldest one first."""
        return () if self._is_closed else self._handover.preparation.under_way

    async def excess(self) -> AgentError | None:
        """Return the error of a worker that uses more than it may, or None."""
        group = self._process.pid if self.container is None else 0
        return await self._bounds.excess(self.pid, group)

    def keep_assets(self, assets: FetchedAssets) -> None:
        """Keep the files fetched for its session; called once."""
        self.assets, self.has_assets = assets, True

    def kill(self) -> None:
        """Kill it, and every process it started.

        In the sandbox, no process leaves the group of its worker; see `refuse_rights`.
        """
        if self.container is not None:
            self.container.kill()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def death(self) -> WorkerDied:
        """Wait for its end; return how it ended, with the last line it wrote to stderr.

        The samples that it prepared at that moment are named: one of them may be the cause.
        """
        code = await self._process.wait()
        if self.container is not None:
            code = self.container.status_of(code)
        if code >= 0:
            ending = f"exited with {code}"
        else:
            ending = f"was killed by {signal.Signals(-code).name}{_HINTS.get(-code, '')}"
        ending += preparing_text(self.samples_under_way)
        lines = reasons_in(tail_of(self._stderr))
        return WorkerDied(ending, lines[-1][:_MOST_LINE_CHARACTERS] if lines else "")

    async def close(self) -> None:
        """Ask it to end, kill it when it does not, and free what it used."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._channel.send(CloseSession())
                await self._process.wait()
        self.kill()
        if self.container is not None:
            await self.container.remove()
        await self._process.wait()
        if not self._is_closed:
            self._is_closed = True
            self._channel.close()
            self._handover.close()
            self._stderr.close()
            self.assets.close()
        await asyncio.to_thread(remove_tree, self._scratch)


async def _started_here(
    scratch: Path,
    stderr: IO[bytes],
    limits: WorkerLimits,
    shared: Sequence[int],
    variables: Mapping[str, str],
) -> tuple[asyncio.subprocess.Process, socket.socket]:
    """Start a worker as a child of this process; return it, and this end of its channel.

    `shared` are the descriptors of ring and spool, `variables` are added to this environment.
    """
    with contextlib.ExitStack() as undo:
        host_end, worker_end = socket.socketpair()
        undo.callback(host_end.close)
        descriptors = (worker_end.fileno(), *shared)
        command = [sys.executable, "-P", "-m", "services.agent.worker.worker"]
        command += map(str, (*descriptors, limits.spool_bytes, scratch))
        with worker_end:
            process = await asyncio.create_subprocess_exec(
                *command,
                pass_fds=descriptors,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env=worker_environment(variables, limits.passed_variables),
                start_new_session=True,
            )
        undo.pop_all()
    return process, host_end


def _caches_in(scratch: Path) -> dict[str, str]:
    """Return the variables by which programs keep temporary files and caches in `scratch`.

    Nothing that one model's worker compiled is loaded by another's.
    """
    return {
        "TMPDIR": str((scratch / "tmp").absolute()),
        **{name: str((scratch / "cache").absolute()) for name in _CACHES},
    }


def worker_environment(
    variables: Mapping[str, str] = NO_VARIABLES, passed: Collection[str] = ()
) -> dict[str, str]:
    """Return the environment of a worker: the host's without secrets, and these `variables`.

    Variables whose names are in `passed` count as no secrets.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith("MLSCOPE_")}
    suspects = {name for name, value in own.items() if is_secret(name, value)}
    secret = tuple(sorted(suspects.difference(passed)))
    if secret:
        _log_withheld(secret)
    environment = {name: value for name, value in own.items() if name not in secret}
    paths = [str(_ROOT), environment.get("PYTHONPATH", "")]
    path = os.pathsep.join(filter(None, paths))
    return {**environment, **_FOR_EACH_WORKER, **variables, "PYTHONPATH": path}


@functools.cache
def _log_withheld(names: tuple[str, ...]) -> None:
    """Log once which variables workers do not get."""
    _log.info(
        "models get no variables that look like secrets", extra={"variables": ", ".join(names)}
    )


def is_secret(name: str, value: str) -> bool:
    """Tell whether a variable looks like a secret of the agent's user, by its `name` or `value`.

    A model could send it away. The address of a proxy stays, with its password: without it nothing
    could be reached.
    """
    is_proxy = "PROXY" in name.upper().split("_")
    return is_secret_name(name) or (not is_proxy and redact(value) != value)
