"""The processes of a test's cluster, forked from one that has imported what services import.

`mlscope up` starts a supervisor and six services, each an interpreter of its own: five seconds of
processor time, all of them imports. Here whoever starts `python -m cli.main` forks instead, and an
agent that starts a worker. The fork has the arguments, environment, folder and streams that it
would have, and no other file.
"""

import asyncio
import atexit
import gc
import importlib
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NoReturn

IMPORTED = (
    "cli.cluster.supervisor",
    "cli.commands.provision",
    "cli.commands.serve",
    "uvloop",
    "services.agent.worker.worker",
    *(
        f"services.{name}.service"
        for name in ("registry", "scheduler", "agent", "collector", "analyzer", "gateway")
    ),
)
COMMAND = [sys.executable, "-m", "cli.main"]
WORKER = (sys.executable, "-P", "-m", "services.agent.worker.worker")
POLL_S = 0.005


class ForkedChild:
    """A child process as `subprocess.Popen` has it, as far as a supervisor asks."""

    def __init__(self, arguments: Sequence[str], start: Callable[[], None]) -> None:
        """Fork; the child calls `start`, then runs `mlscope` with the `arguments`."""
        self.args = [*COMMAND, *arguments]
        self.returncode: int | None = None
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if not self.pid:
            _run(lambda: _main(arguments), start)

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

    def __init__(self, run: Callable[[], object], start: Callable[[], None]) -> None:
        """Fork; the child calls `start`, then `run`."""
        self.returncode: int | None = None
        self.pid = os.fork()
        if not self.pid:
            _run(run, start)
        self._loop = asyncio.get_running_loop()
        self._end: asyncio.Future[int] = self._loop.create_future()
        self._watched = os.pidfd_open(self.pid)
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


def _main(arguments: Sequence[str]) -> int:
    sys.argv = ["mlscope", *arguments]
    from cli.main import main

    return main()


def fork_in_place() -> None:
    """Let this process, and those forked from it, fork where they would start an interpreter.

    It would run `mlscope`, or a worker.
    """
    start_interpreter = subprocess.Popen
    start_program = asyncio.create_subprocess_exec

    def popen(argv: Sequence[str], **options: Any) -> "ForkedChild | subprocess.Popen[bytes]":
        if list(argv[: len(COMMAND)]) != COMMAND:
            return start_interpreter(argv, **options)
        return ForkedChild(argv[len(COMMAND) :], lambda: _take_on(**options))

    async def create(*argv: str, **options: Any) -> "ForkedWorker | asyncio.subprocess.Process":
        if argv[: len(WORKER)] != WORKER:
            return await start_program(*argv, **options)
        worker = importlib.import_module(WORKER[-1])
        return ForkedWorker(
            lambda: worker.main([*argv[len(WORKER) :]]),
            lambda: _take_on(**options),
        )

    subprocess.Popen = popen  # type: ignore[assignment, misc]
    asyncio.create_subprocess_exec = create  # type: ignore[assignment]


def _take_on(
    stdout: IO[bytes] | int = subprocess.DEVNULL,
    stderr: IO[bytes] | int = subprocess.STDOUT,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
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
    output = nothing if isinstance(stdout, int) else stdout.fileno()
    errors = output if isinstance(stderr, int) else stderr.fileno()
    for number, descriptor in enumerate((nothing, output, errors)):
        os.dup2(descriptor, number)
    first = 3
    for descriptor in sorted(pass_fds):
        os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))
