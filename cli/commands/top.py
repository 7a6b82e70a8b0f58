"""`mlscope top`: the agents and the evaluations that run now, drawn anew every second."""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence

from cli import exits
from cli.inputs.connection import client_of
from cli.printing.output import Rows, table_lines, takes_bold, width_of
from mlscope.client import AsyncClient
from mlscope.client.watching import Progress
from mlscope.evaluation.fold import ENDED
from mlscope.evaluation.run import RUN_ENDED
from mlscope.quantities import shown
from schemas.status import AgentStatus

_HOME_AND_CLEAR = "\x1b[H\x1b[J"
_AGENT_COLUMNS = ("agent", "state", "processor", "accelerators", "frameworks")
_RUN_COLUMNS = ("evaluation", "model", "state", "runs", "queries", "failed", "p50", "p99", "spans")
_MOST_EVALUATIONS = 20


async def top(arguments: argparse.Namespace) -> int:
    """Draw the fleet and what runs until Ctrl-C; with `--once`, print it once."""
    async with client_of(arguments) as client:
        watched: dict[str, Watched] = {}
        while True:
            agents = (await client.catalog("agent")).agents
            await _watch_running(client, watched)
            if arguments.once:
                await asyncio.gather(*(watch.has_news.wait() for watch in watched.values()))
            lines = screen(agents, [watch.progress for watch in watched.values() if watch.progress])
            is_drawn = sys.stdout.isatty() and not arguments.once
            sys.stdout.write((_HOME_AND_CLEAR if is_drawn else "") + "\n".join(lines) + "\n")
            sys.stdout.flush()
            if arguments.once:
                break
            await asyncio.sleep(arguments.every)
        for watch in watched.values():
            watch.task.cancel()
    return exits.OK


class Watched:
    """An evaluation that is followed in the background; `progress` is its newest."""

    def __init__(self, client: AsyncClient, evaluation: str) -> None:
        """Follow an evaluation."""
        self.progress: Progress | None = None
        self.has_news = asyncio.Event()
        self.task = asyncio.create_task(self._follow(client, evaluation))

    async def _follow(self, client: AsyncClient, evaluation: str) -> None:
        try:
            async for progress in client.watch(evaluation):
                self.progress = progress
                self.has_news.set()
        finally:
            self.has_news.set()


async def _watch_running(client: AsyncClient, watched: dict[str, Watched]) -> None:
    """Follow evaluations that have begun, and no longer those that ended."""
    newest = await client.evaluations(limit=_MOST_EVALUATIONS, predictions=True)
    running = {status.evaluation for status in newest if status.state not in ENDED}
    for evaluation in running - watched.keys():
        watched[evaluation] = Watched(client, evaluation)
    for evaluation in watched.keys() - running:
        watched.pop(evaluation).task.cancel()


def screen(agents: Sequence[AgentStatus], running: Sequence[Progress]) -> list[str]:
    """Return the lines: the agents, then what runs with its figures so far."""
    width = width_of(sys.stdout)
    live = sum(agent.state == "live" for agent in agents)
    head = f"{live} of {len(agents)} agents live, {len(running)} running"
    lines = [f"mlscope top   {head}   {time.strftime('%H:%M:%S')}", ""]
    rows = Rows(_AGENT_COLUMNS, tuple(map(agent_row, agents)), folds=True)
    if agents:
        lines += table_lines(rows, is_bold=takes_bold(sys.stdout), fit=width)
    else:
        lines.append("no agent has announced itself; start one with: mlscope serve agent")
    lines.append("")
    if running:
        rows = Rows(_RUN_COLUMNS, tuple(map(run_row, running)), folds=True)
        lines += table_lines(rows, is_bold=takes_bold(sys.stdout), fit=width)
    else:
        lines.append("nothing is running; start with: mlscope run MODEL")
    return lines


def agent_row(agent: AgentStatus) -> tuple[str, ...]:
    """Return the cells of an agent."""
    announced = agent.announcement
    hardware = announced.hardware
    accelerators = ", ".join(accelerator.name for accelerator in hardware.accelerators)
    runtimes = " ".join(f"{runtime.framework} {runtime.version}" for runtime in announced.runtimes)
    return announced.agent, agent.state, hardware.cpu_model, shown(accelerators or None), runtimes


def run_row(progress: Progress) -> tuple[str, ...]:
    """Return the cells of an evaluation: totals over its runs, latencies of the newest."""
    status, readings = progress.status, list(progress.readings.values())
    ended = sum(run.state in RUN_ENDED or run.final for run in status.runs)
    timed = [reading for reading in readings if reading.p50_ns >= 0]
    p50, p99 = (None, None) if not timed else (timed[-1].p50_ns, timed[-1].p99_text)
    return (
        status.evaluation,
        status.model,
        status.state,
        f"{ended}/{len(status.runs)}",
        str(sum(reading.answered for reading in readings)),
        str(sum(reading.failed for reading in readings)),
        shown(p50, "ns"),
        shown(p99),
        str(sum(reading.spans for reading in readings)),
    )
