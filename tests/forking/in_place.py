"""Processes that fork where they would start an interpreter.

`mlscope up` starts a supervisor and six services, each an interpreter of its own: five seconds of
processor time, all of them imports. Here whoever starts `python -m cli.main` forks instead, and an
agent that starts a worker. The fork has the arguments, environment, folder and streams that it
would have, and no other file.
"""

import asyncio
import importlib
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from tests.forking.children import ForkedChild, ForkedWorker, fork, take_on

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


def fork_in_place() -> None:
    """Let this process, and those forked from it, fork what would run `mlscope` or a worker."""
    start_interpreter = subprocess.Popen
    start_program = asyncio.create_subprocess_exec

    def popen(argv: Sequence[str], **options: Any) -> "ForkedChild | subprocess.Popen[bytes]":
        if list(argv[: len(COMMAND)]) != COMMAND:
            return start_interpreter(argv, **options)
        arguments = argv[len(COMMAND) :]
        return ForkedChild(argv, fork(lambda: _run_mlscope(arguments), lambda: take_on(**options)))

    async def create(*argv: str, **options: Any) -> "ForkedWorker | asyncio.subprocess.Process":
        if argv[: len(WORKER)] != WORKER:
            return await start_program(*argv, **options)
        arguments = argv[len(WORKER) :]
        return ForkedWorker(fork(lambda: run_worker(arguments), lambda: take_on(**options)))

    subprocess.Popen = popen  # type: ignore[assignment, misc]
    asyncio.create_subprocess_exec = create  # type: ignore[assignment]


def _run_mlscope(arguments: Sequence[str]) -> object:
    sys.argv = ["mlscope", *arguments]
    return importlib.import_module("cli.main").main()


def run_worker(arguments: Sequence[str]) -> object:
    """Work as an agent's worker until its channel ends."""
    return importlib.import_module(WORKER[-1]).main([*arguments])
