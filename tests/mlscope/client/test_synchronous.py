"""The synchronous client against a real nats-server: its own loop, in its own thread."""

import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path

from cli.cluster.servers.nats_server import NatsServer
from mlscope import Client
from tests.cli.conftest import standing
from tests.stand_ins import StandIns
from tests.stories import whole_story

__all__ = ["standing"]


async def test_everything_works_without_a_loop(
    nats_server: NatsServer, standing: StandIns, tmp_path: Path
) -> None:
    standing.then = lambda evaluation: whole_story(evaluation)[1:]
    seed_file = nats_server.seed_files["requester"]

    def use() -> list[object]:
        with Client(url=nats_server.url, seed_file=seed_file) as client:
            evaluation = client.run("tiny", batch_sizes=[1, 2])
            seen = [step.status.state for step in evaluation.watch()]
            abandoned = evaluation.watch()
            next(abandoned)
            abandoned.close()
            client.cancel(evaluation.id)
            return [
                seen[-1],
                evaluation.wait(5).state,
                evaluation.table("latency").rows()[0]["run"],
                [model.name for model in client.catalog("model").models],
                client.evaluation(evaluation.id).status().state,
            ]

    found = await asyncio.to_thread(use)
    assert found == ["analyzed", "analyzed", "r0", ["tiny"], "analyzed"]
    assert len(standing.cancelled) == 1


WATCHER = """
import sys

from mlscope import Client
from mlscope.client import meter  # the watch imports it, which takes a moment
from schemas.values.identity import new_evaluation_id

url, seed_file = sys.argv[1:]
with Client(url=url, seed_file=seed_file) as client:
    steps = client.watch(new_evaluation_id())
    print("watching", flush=True)
    next(steps)
"""


def test_ctrl_c_ends_a_watch(nats_server: NatsServer) -> None:
    """Nobody answers; what the user pressed is not hidden by an error of what it ended."""
    seed_file = str(nats_server.seed_files["requester"])
    command = [sys.executable, "-c", WATCHER, nats_server.url, seed_file]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as watcher:
        assert watcher.stdout is not None
        assert watcher.stdout.readline() == "watching\n"
        time.sleep(0.2)
        watcher.send_signal(signal.SIGINT)
        _, error = watcher.communicate(timeout=60)
    assert watcher.returncode == -signal.SIGINT
    assert error.splitlines()[-1] == "KeyboardInterrupt"
