"""The synchronous client against a real nats-server: its own loop, in its own thread."""

import asyncio
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.cluster.servers.nats_server import NatsServer
from mlscope import Client
from schemas.values.identity import new_evaluation_id
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


class Pressed(BaseException):
    """What Ctrl-C raises here: an early KeyboardInterrupt would end the process of the tests."""


@pytest.fixture
def _ctrl_c() -> Iterator[None]:
    def press(*_: object) -> None:
        raise Pressed

    before = signal.signal(signal.SIGINT, press)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_ctrl_c")
def test_ctrl_c_ends_a_watch(nats_server: NatsServer) -> None:
    """Nobody answers; what the user pressed is not hidden by an error of what it ended."""
    seed_file = nats_server.seed_files["requester"]
    with Client(url=nats_server.url, seed_file=seed_file) as client:
        steps = client.watch(new_evaluation_id())
        press = (threading.main_thread().ident, signal.SIGINT)
        threading.Timer(0.2, signal.pthread_kill, press).start()
        with pytest.raises(Pressed):
            next(steps)
