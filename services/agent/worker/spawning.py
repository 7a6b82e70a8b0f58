"""Starts processes that end with the worker (I/O)."""

import subprocess
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future


def spawn(
    command: Sequence[str],
    descriptors: Sequence[int],
    environment: Mapping[str, str],
    has_ended: threading.Event,
    stderr: int | None = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Start a process from a thread that waits until it `has_ended`. Raises OSError.

    The kernel ends the child with the thread that started it, and callers' threads may end sooner.
    It runs `command` with the `descriptors`, the `environment`, and the `stderr` of `Popen`.
    """
    result: Future[subprocess.Popen[bytes]] = Future()

    def start_and_wait() -> None:
        try:
            process = subprocess.Popen(
                command,
                pass_fds=descriptors,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                cwd="/",
                env=environment,
            )
        except BaseException as error:  # noqa: BLE001  # raised again where it is awaited
            result.set_exception(error)
            return
        result.set_result(process)
        has_ended.wait()

    threading.Thread(target=start_and_wait, name="spawn", daemon=True).start()
    return result.result()
