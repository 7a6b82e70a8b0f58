"""What is full: a stream whose reader stands still, and a disk. Nothing accepted is lost.

Whole clusters are tried by `make test-all`; `make test` has the agent's side of a full stream in
`test_execution_held_back.py`, and the collector's in `test_retention.py`.
"""

import asyncio
import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from mlscope import Client
from mlscope.client.errors import CommandRefused
from schemas.values.identity import run_key
from tests.disks import check_small, fill, mount_small, unmount
from tests.flow.asking import stranger
from tests.flow.clusters import Cluster, assert_well, online, running, until

#: this module stops servers: the cluster is its own
CLUSTER: dict[str, str] = {}

STREAM_BYTES = 256 * 1024
EVALUATIONS = 4
IDENTITY = Path(__file__).resolve().parents[2] / "manifests" / "models" / "identity.yml"
QUERIES = 1500


@contextmanager
def standing_still(pid: int) -> Iterator[None]:
    """Stop a process, as a debugger would, and let it go on."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def stream_bytes(cluster: Cluster, stream: str) -> int:
    """Return how many bytes a stream holds."""
    async with stranger(cluster.nats_url, cluster.key("provisioner"), "provisioner") as reader:
        told = await reader.json(f"$JS.API.STREAM.INFO.{stream}", {})
    size: int = told["state"]["bytes"]
    return size


@pytest.mark.long
@pytest.mark.parametrize(("stream", "queries"), [("TRACES", QUERIES), ("QUERIES", 4 * QUERIES)])
async def test_a_full_stream_holds_the_agent_back_and_loses_nothing(
    stream: str, queries: int
) -> None:
    settings = {f"MLSCOPE_{stream}_MAX_BYTES": str(STREAM_BYTES), "MLSCOPE_PURGE_AFTER_S": "1"}
    with running(settings) as cluster, cluster.client() as client:
        with standing_still(cluster.pid("collector")):
            asked = [
                client.run(
                    "identity", scenarios=online(queries, samples="streamed"), trace_level="model"
                )
                for _ in range(EVALUATIONS)
            ]
            await no_longer_growing(cluster, stream)
            assert asked[-1].status().state in ("planned", "running")
        for evaluation in asked:
            status = evaluation.wait(60)
            (one,) = status.runs
            assert (status.state, one.answered, one.caveats) == ("analyzed", queries, ())
            key = run_key(status.evaluation, one.run, one.attempt)
            assert stored(cluster, key) == {"query": (queries,) * 2, "span": (2 * queries,) * 2}
        assert_well(cluster)


@pytest.mark.long
async def test_a_run_larger_than_its_stream_is_stored_as_it_goes() -> None:
    settings = {"MLSCOPE_TRACES_MAX_BYTES": str(STREAM_BYTES), "MLSCOPE_PURGE_AFTER_S": "1"}
    with running(settings) as cluster, cluster.client() as client:
        queries = EVALUATIONS * QUERIES
        evaluation = client.run(
            "identity", scenarios=online(queries, samples="streamed"), trace_level="model"
        )
        status = evaluation.wait(60)
        (one,) = status.runs
        assert (status.state, one.answered, one.caveats) == ("analyzed", queries, ())
        key = run_key(status.evaluation, one.run, one.attempt)
        counted = "SELECT count(*), count(DISTINCT span) FROM span WHERE run_key = %s"
        assert cluster.rows(counted, key) == [(2 * queries,) * 2]
        assert_well(cluster)


def stored(cluster: Cluster, key: int) -> dict[str, tuple[int, int]]:
    """Return (rows, distinct rows) of one attempt in the tables `query` and `span`."""
    counted = 'SELECT count(*), count(DISTINCT "{0}") FROM "{0}" WHERE run_key = %s'
    return {each: cluster.rows(counted.format(each), key)[0] for each in ("query", "span")}


async def no_longer_growing(cluster: Cluster, stream: str) -> None:
    """Return once a stream takes no more: filled to the brim, never above."""
    sizes = [await stream_bytes(cluster, stream)]
    while len(sizes) < 5 or sizes[-1] == 0 or len(set(sizes[-5:])) > 1:
        assert len(sizes) < 100, sizes
        await asyncio.sleep(0.3)
        sizes.append(await stream_bytes(cluster, stream))
    assert STREAM_BYTES / 2 < sizes[-1] <= STREAM_BYTES, sizes


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """Lend a folder on a disk of its own, of 400 MB; only root may make one."""
    folder = Path(tempfile.mkdtemp(prefix="mlscope-disk-"))
    try:
        if reason := mount_small(folder):
            pytest.skip(f"NO FULL DISK IS TRIED: {reason}")
        yield folder
    finally:
        unmount(folder)
        folder.rmdir()


def test_only_a_small_disk_of_its_own_is_filled(small_disk: Path, tmp_path: Path) -> None:
    for place in (Path("/"), tmp_path):
        with pytest.raises(ValueError, match="not filled"):
            check_small(place)
    below = small_disk / "below"
    below.mkdir()
    with pytest.raises(ValueError, match="not filled"):
        fill(below / "filler")
    assert not (below / "filler").exists()


def asked_until_refused(client: Client, filler: Path) -> tuple[list[str], CommandRefused]:
    """Ask while the disk is full; return what was accepted all the same, and the refusal."""
    accepted: list[str] = []
    for _ in range(30):
        fill(filler)
        try:
            accepted.append(client.run("identity", scenarios=online(), warmup=len(accepted)).id)
        except CommandRefused as refused:
            return accepted, refused
    raise AssertionError(f"a full disk took {len(accepted)} requests")


@pytest.mark.long
@pytest.mark.timeout(180)
def test_a_full_disk_is_said_and_what_was_accepted_ends_once_there_is_room(
    small_disk: Path,
) -> None:
    with running(folder=small_disk) as cluster, cluster.client() as client:
        rate = {"name": "fixed_rate", "parameters": {"queries": 200, "rate_hz": 50}}
        under_way = client.run("identity", scenarios=[rate], trace_level="model")
        until(lambda: under_way.status().state == "running")
        filler = small_disk / "filler"
        accepted, refused = asked_until_refused(client, filler)
        assert (refused.error, refused.refused.accepted) == ("unavailable", False)
        filler.unlink()
        for evaluation in (under_way.id, *accepted):
            status = client.evaluation(evaluation).wait(90)
            assert status.state == "analyzed", status
        restarted = cluster.restarted()
        assert set(restarted) <= {"nats", "postgres"}, "every service lived on"
        answered = [one.answered for one in under_way.status().runs]
        assert answered == [200]


@contextmanager
def no_room_in_the_next_block(cluster: Cluster) -> Iterator[None]:
    """Let the log find no room once its present block, 8 MiB of it, is full: needs no rights."""
    (folder,) = (cluster.folder / "nats" / "jetstream").glob("*/streams/EVALUATIONS/msgs")
    newest = max(int(block.stem) for block in folder.glob("*.blk"))
    block = folder / f"{newest + 1}.blk"
    block.symlink_to("/dev/full")
    try:
        yield
    finally:
        if block.is_symlink():
            block.unlink()


def asked_in_vain(client: Client) -> tuple[list[str], CommandRefused]:
    """Ask, in large words, for what waits for its agent; return what was accepted, and the no."""
    accepted: list[str] = []
    words = {"agents": ["nobody"], "wait_s": 3600}
    identity = yaml.safe_load(IDENTITY.read_text("utf-8"))
    for number in range(40):
        large = {**identity, "name": f"large{number}", "description": "x" * 450_000}
        try:
            accepted.append(client.run(large, **words).id)
        except CommandRefused as refused:
            return accepted, refused
    raise AssertionError("the log has a block without end")


@pytest.mark.long
@pytest.mark.timeout(180)
def test_a_log_without_room_is_said_and_keeps_what_was_accepted() -> None:
    with running() as cluster, cluster.client() as client:
        rate = {"name": "fixed_rate", "parameters": {"queries": 200, "rate_hz": 40}}
        under_way = client.run("identity", scenarios=[rate], trace_level="model")
        until(lambda: under_way.status().state == "running")
        with no_room_in_the_next_block(cluster):
            accepted, refused = asked_in_vain(client)
            assert (refused.error, refused.refused.accepted) == ("unavailable", False)
        status = under_way.wait(90)
        assert (status.state, [one.answered for one in status.runs]) == ("analyzed", [200]), status
        assert accepted
        for evaluation in map(client.evaluation, accepted):
            assert evaluation.status().state in ("requested", "postponed")
            client.cancel(evaluation.id)
            assert evaluation.status().state == "cancelled"
        assert_well(cluster)
