"""A worker in a container: started with its link, killed, removed (I/O).

The link is that of any worker, handed over by a socket in the worker's own folder: descriptors of
ring and spool travel through it, and it is the channel afterwards. So host and container share no
memory but the ring, and no network.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from mlscope.tasks import end_process
from services.agent.errors import ContainerRefused
from services.agent.host.containers.engine import LABEL, Engine, mount_options
from services.agent.host.containers.mounted_files import mounted_files
from services.agent.host.worker_stderr import tail_of
from services.agent.link.channel import SOCKET

_WORKER = "services.agent.worker.contained"
_START_S = 120.0
_NOT_LINKED = (
    "its files are too many to be mounted one by one, and can't be linked: have them in the file "
    "system of the agent's data folder"
)
_CREDENTIALS = struct.Struct("3i")
_ENDED_BY_SIGNAL = 128


@dataclass(slots=True)
class SessionContainer:
    """The container of one session's worker, before and after its start."""

    engine: Engine
    #: the engine's name and version
    engine_text: str
    image: str
    digest: str
    #: its name, unique on this machine
    name: str
    #: the folder of the agent that starts it
    owner: Path
    #: cpu or gpu
    device: str
    #: files and folders of this host that the worker reads; they have the same paths inside
    readable: Sequence[Path]
    #: most memory; 0 is no bound
    memory_bytes: int = 0
    #: most processes and threads; 0 is no bound
    processes: int = 0
    #: the worker's process id on this host; 0 before its start, and where it is hidden from here
    pid: int = field(default=0, init=False)
    #: names the worker even where its process id is another's by now; -1 is none
    _handle: int = field(default=-1, init=False)
    #: the folder for links to its files, which is removed with it
    _links: Path | None = field(default=None, init=False)

    @property
    def conditions(self) -> dict[str, str]:
        """What the record of a run says of the container that it was measured in."""
        return {
            "container": self.image,
            "container_digest": self.digest,
            "container_engine": self.engine_text,
        }

    async def start(
        self,
        scratch: Path,
        stderr: IO[bytes],
        spool_bytes: int,
        descriptors: Sequence[int],
        environment: Mapping[str, str],
    ) -> tuple[asyncio.subprocess.Process, socket.socket]:
        """Start the container; return the engine's process, and the host's end of the channel.

        The worker gets the `descriptors` of ring and spool, the spool's bound `spool_bytes`, the
        variables of `environment`, and may write into `scratch`; it writes `stderr`. Raises
        ContainerRefused, OSError.
        """
        try:
            command = await asyncio.to_thread(self._command, scratch, spool_bytes, environment)
            return await self._started(command, scratch, stderr, descriptors)
        except BaseException:
            await asyncio.shield(self.remove())
            raise

    async def _started(
        self,
        command: Sequence[str],
        scratch: Path,
        stderr: IO[bytes],
        descriptors: Sequence[int],
    ) -> tuple[asyncio.subprocess.Process, socket.socket]:
        """Start the engine by its `command`, and hand the `descriptors` to the worker."""
        with _listening(scratch) as listener:
            async with contextlib.AsyncExitStack() as undo:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=stderr,
                    start_new_session=True,
                )
                undo.push_async_callback(end_process, process)
                end = await self._connection(listener, process, stderr)
                undo.callback(end.close)
                credentials = end.getsockopt(
                    socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
                )
                self.pid = _CREDENTIALS.unpack(credentials)[0]
                with contextlib.suppress(OSError):
                    self._handle = os.pidfd_open(self.pid)
                end.setblocking(True)
                socket.send_fds(end, [b"\0"], descriptors)
                undo.pop_all()
        return process, end

    @staticmethod
    def status_of(code: int) -> int:
        """Return how the worker ended, by the engine's exit `code`: a negative one is a signal.

        A code above 128 that is no signal's is the worker's own, such as 255 of `exit(-1)`.
        """
        number = code - _ENDED_BY_SIGNAL
        return -number if number in set(signal.Signals) else code

    def kill(self) -> None:
        """Kill the worker; the container ends with it. Does nothing once the worker has ended."""
        if self._handle >= 0:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    async def remove(self) -> None:
        """Remove the container, running or not; does nothing where it is gone."""
        await asyncio.to_thread(self.engine.remove, self.name)
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
        if self._links is not None:
            await asyncio.to_thread(shutil.rmtree, self._links, ignore_errors=True)

    async def _connection(
        self, listener: socket.socket, process: asyncio.subprocess.Process, stderr: IO[bytes]
    ) -> socket.socket:
        """Return the connection of the worker. Raises ContainerRefused where none comes."""
        accepting = asyncio.create_task(asyncio.get_running_loop().sock_accept(listener))
        ending = asyncio.create_task(process.wait())
        tasks = {accepting, ending}
        try:
            await asyncio.wait(tasks, timeout=_START_S, return_when=asyncio.FIRST_COMPLETED)
            if accepting.done():
                return accepting.result()[0]
            if not ending.done():
                raise ContainerRefused(self.image, f"its worker did not start in {_START_S:g} s")
            last_line = "".join(tail_of(stderr).strip().splitlines()[-1:])
            last_line = last_line or f"the engine ended with {ending.result()}"
            raise ContainerRefused(self.image, f"can't be started: {last_line}")
        finally:
            for task in tasks:
                task.cancel()

    def _command(
        self, scratch: Path, spool_bytes: int, environment: Mapping[str, str]
    ) -> list[str]:
        confinement = self.engine.confinement(self.device, self.processes)
        command = [self.engine.program, "run", *confinement]
        command += ["--name", self.name, "--label", f"{LABEL}={self.owner}"]
        if self.memory_bytes:
            command += ["--memory", f"{self.memory_bytes}b"]
        for name, value in environment.items():
            command += ["--env", f"{name}={value}"]
        command += mount_options(scratch, str(scratch), is_writable=True)
        self._links = scratch.with_name(f"{self.name}-files")
        try:
            mounts = mounted_files(self.readable, scratch, self._links)
        except OSError as error:
            raise ContainerRefused(self.image, f"{_NOT_LINKED}: {error}") from error
        for path, target in mounts:
            command += mount_options(path, str(target))
        command += ["--entrypoint", "python", self.digest, "-P", "-m", _WORKER]
        return [*command, str(spool_bytes), str(scratch)]


@contextlib.contextmanager
def _listening(folder: Path) -> Iterator[socket.socket]:
    """Listen on a socket in `folder`, whose path may be longer than addresses of sockets."""
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"/proc/self/fd/{handle}/{SOCKET}")
            listener.listen(1)
            listener.setblocking(False)
            yield listener
    finally:
        (folder / SOCKET).unlink(missing_ok=True)
        os.close(handle)
