"""Forked processes: what each does first and last, and how its parent waits for it."""

import asyncio
import atexit
import gc
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import IO, NoReturn

POLL_S = 0.005


class ForkedChild:
    """A child process as `subprocess.Popen` has it, as far as a supervisor asks."""

    def __init__(self, argv: Sequence[str], pid: int) -> None:
        """Take the id of a child of this process, and what stands for its command line."""
        self.args, self.pid = argv, pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, negative for the signal that ended it; None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once it has ended; `TimeoutExpired` after `timeout` seconds."""
        deadline_s = time.monotonic() + (float("inf") if timeout is None else timeout)
        while (code := self.poll()) is None:
            if time.monotonic() > deadline_s:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            time.sleep(POLL_S)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


class ForkedWorker:
    """A child process as `asyncio.create_subprocess_exec` gives it, as far as an agent asks."""

    def __init__(self, pid: int) -> None:
        """Take the id of a child of this process; the running loop waits for its end."""
        self.pid = pid
        self.returncode: int | None = None
        self._loop = asyncio.get_running_loop()
        self._end: asyncio.Future[int] = self._loop.create_future()
        self._watched = os.pidfd_open(pid)
        self._loop.add_reader(self._watched, self._note_the_end)

    def _note_the_end(self) -> None:
        self._loop.remove_reader(self._watched)
        os.close(self._watched)
        _, status = os.waitpid(self.pid, 0)
        self.returncode = os.waitstatus_to_exitcode(status)
        self._end.set_result(self.returncode)

    async def wait(self) -> int:
        """Return the exit code once it has ended, negative for the signal that ended it."""
        return await asyncio.shield(self._end)

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)


def fork(run: Callable[[], object], start: Callable[[], None]) -> int:
    """Fork; the child calls `start`, then `run`, and ends. Return its id."""
    sys.stdout.flush()
    sys.stderr.flush()
    return os.fork() or _run(run, start)


def _run(run: Callable[[], object], start: Callable[[], None]) -> NoReturn:
    """Call `start`, then `run`, in a process just forked, and end it.

    Its parent's calls never return here.
    """
    code: object = 1
    try:
        gc.freeze()  # What the parent holds must not be closed by its finalizers here.
        atexit._clear()
        logging.root.handlers.clear()
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals():
            with suppress(OSError, ValueError, TypeError):
                if callable(signal.getsignal(number)):
                    signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        start()
        code = run()
    except SystemExit as end:
        code = end.code
    except BaseException:
        logging.exception("forked")
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


def take_on(
    stdout: IO[bytes] | int = subprocess.DEVNULL,
    stderr: IO[bytes] | int = subprocess.STDOUT,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    preexec_fn: Callable[[], None] | None = None,
    process_group: int | None = None,
    start_new_session: bool = False,
    pass_fds: Collection[int] = (),
    **_: object,
) -> None:
    """Become what the options of `subprocess.Popen` say; a stream that is no file is none."""
    if start_new_session:
        os.setsid()
    if process_group is not None:
        os.setpgid(0, process_group)
    if cwd is not None:
        os.chdir(cwd)
    if env is not None:
        os.environ.clear()
        os.environ.update(env)
    if preexec_fn is not None:
        preexec_fn()
    nothing = os.open(os.devnull, os.O_RDWR)
    output = _descriptor(stdout, nothing)
    errors = _descriptor(stderr, output)
    for number, descriptor in enumerate((nothing, output, errors)):
        os.dup2(descriptor, number)
    first = 3
    for descriptor in sorted(pass_fds):
        os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))


def _descriptor(stream: IO[bytes] | int, otherwise: int) -> int:
    """Return the descriptor of a stream; `otherwise` for a constant of `subprocess`."""
    number = stream if isinstance(stream, int) else stream.fileno()
    return number if number >= 0 else otherwise
