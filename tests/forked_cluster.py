"""The processes of a test's cluster, forked from one that has imported what services import.

`mlscope up` starts a supervisor and six services, each an interpreter of its own: five seconds of
processor time, all of them imports. Here whoever starts `python -m cli.main` forks instead. The
fork has the arguments, environment, folder and streams that it would have, and no other file.
"""

import atexit
import gc
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NoReturn

IMPORTED = (
    "cli.cluster.supervisor",
    "cli.commands.provision",
    "cli.commands.serve",
    "uvloop",
    *(
        f"services.{name}.service"
        for name in ("registry", "scheduler", "agent", "collector", "analyzer", "gateway")
    ),
)
COMMAND = [sys.executable, "-m", "cli.main"]
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
            _run(arguments, start)

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


def _run(arguments: Sequence[str], start: Callable[[], None]) -> NoReturn:
    """Run `mlscope` in a process just forked. Its parent's calls never return here."""
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
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        sys.argv = ["mlscope", *arguments]
        from cli.main import main

        code = main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        logging.exception("forked")
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


def fork_in_place() -> None:
    """Let this process, and those forked from it, fork where they would start `mlscope`."""
    start_interpreter = subprocess.Popen

    def popen(argv: Sequence[str], **options: Any) -> "ForkedChild | subprocess.Popen[bytes]":
        if list(argv[: len(COMMAND)]) != COMMAND:
            return start_interpreter(argv, **options)
        return ForkedChild(argv[len(COMMAND) :], lambda: _take_on(**options))

    subprocess.Popen = popen  # type: ignore[assignment, misc]


def _take_on(
    stdout: IO[bytes],
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    preexec_fn: Callable[[], None] | None = None,
    process_group: int | None = None,
    start_new_session: bool = False,
    **_: object,
) -> None:
    """Become what the options of `subprocess.Popen` say; both outputs go to `stdout`."""
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
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, file in enumerate((nothing, stdout.fileno(), stdout.fileno())):
        os.dup2(file, number)
