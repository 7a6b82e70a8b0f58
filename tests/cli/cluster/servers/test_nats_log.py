"""A flood of refusals fills neither the disk with the broker's log nor the supervisor's memory."""

import stat
import tracemalloc
from dataclasses import replace
from pathlib import Path

import nats
import pytest

from cli.cluster.servers import nats_server as nats_server_module
from cli.cluster.servers.nats_conf import MIB, NatsLayout, nats_conf
from cli.cluster.servers.nats_server import MOST_READ_BYTES, NatsServer, StorageWatch
from cli.cluster.supervised import MAX_LOG_BYTES

LAYOUT = NatsLayout("/data", "127.0.0.1", 4222, "127.0.0.1", 8222)
COMPLAINT = (
    b"[7] 2026/11/29 23:31:36.900242 [ERR] JetStream failed to store a msg on stream"
    b" 'MLSCOPE > A': write /data/A/msgs/1.blk: no space left on device\n"
)
REFUSAL = b"[7] 2026/11/29 23:31:36.900242 [ERR] 127.0.0.1:1 - cid:5 - " + b"x" * 3900 + b"\n"


def test_a_log_file_has_a_limit_where_one_is_asked_for() -> None:
    layout = replace(LAYOUT, log_file="/logs/na ts.log", max_log_bytes=1 << 20, max_log_files=8)
    text = nats_conf(layout, {"requester": "UREQ"})
    assert 'log_file: "/logs/na ts.log"\n' in text
    assert "logfile_size_limit: 1048576\n" in text
    assert "logfile_max_num: 8\n" in text
    without = nats_conf(LAYOUT, {"requester": "UREQ"})
    assert "log_file" not in without
    assert "logfile" not in without


def test_the_supervisor_never_cuts_a_log_that_its_server_bounds(tmp_path: Path) -> None:
    layout = NatsServer(tmp_path).layout()
    assert 0 < layout.max_log_bytes * layout.max_log_files <= MAX_LOG_BYTES


async def ignored(_: Exception) -> None:
    """Do nothing about an error that the broker tells of."""


async def flood(server: NatsServer, messages: int) -> None:
    """Publish on long subjects that the key may not use: the broker logs each."""
    seed = server.seeds["requester"]
    client = await nats.connect(server.url, nkeys_seed_str=seed, error_cb=ignored)
    for number in range(messages):
        await client.publish(f"x.{number}.{'y' * 3900}")
        if number % 100 == 99:
            await client.flush()
    await client.close()


async def test_the_log_of_a_flood_is_bounded_and_for_its_owner_alone(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_server_module, "MAX_LOG_BYTES", MIB)
    with NatsServer(data_folder) as server:
        await flood(server, messages=1500)
    logs = list((data_folder / "logs").iterdir())
    assert sum(log.stat().st_size for log in logs) < 2.1 * MIB
    assert len(logs) == 2, "the log, and what was in it before"
    assert {stat.S_IMODE(log.stat().st_mode) for log in logs} == {0o600}


def refuses() -> bool:
    return True


@pytest.fixture
def log(tmp_path: Path) -> Path:
    log = tmp_path / "nats.log"
    log.write_bytes(COMPLAINT)
    return log


def say(log: Path, text: bytes) -> None:
    with log.open("ab") as file:
        file.write(text)


def test_what_a_flood_wrote_is_not_read_into_memory(tmp_path: Path, log: Path) -> None:
    watch = StorageWatch(tmp_path, log, refuses)
    watch.is_stuck()
    for _ in range(8):
        say(log, REFUSAL * (MOST_READ_BYTES // len(REFUSAL)))
    say(log, COMPLAINT)
    tracemalloc.start()
    try:
        assert watch.is_stuck(), "what it wrote last counts"
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 3 * MOST_READ_BYTES
    assert not watch.is_stuck(), "it was read once"


def test_the_rest_of_a_line_is_no_line(tmp_path: Path, log: Path) -> None:
    """A client's words could stand where the reading begins."""
    watch = StorageWatch(tmp_path, log, refuses)
    watch.is_stuck()
    rest = COMPLAINT + REFUSAL * (MOST_READ_BYTES // len(REFUSAL) - 1)
    rest += b"x" * (MOST_READ_BYTES - len(rest) - 1) + b"\n"
    say(log, b"[7] a client said: " + rest)
    assert [watch.is_stuck() for _ in range(3)] == [False] * 3


def test_a_log_that_was_begun_anew_is_read_from_its_start(tmp_path: Path, log: Path) -> None:
    watch = StorageWatch(tmp_path, log, refuses)
    watch.is_stuck()
    log.rename(tmp_path / "nats.log.2026")
    log.write_bytes(COMPLAINT + b"[7] longer than the one before\n" * 100)
    assert watch.is_stuck()


def test_a_line_without_an_end_is_waited_for(tmp_path: Path, log: Path) -> None:
    watch = StorageWatch(tmp_path, log, refuses)
    watch.is_stuck()
    say(log, b"x" * (MOST_READ_BYTES + 1))
    assert not watch.is_stuck()
    say(log, COMPLAINT)
    assert not watch.is_stuck(), "it is the end of that line"
    say(log, COMPLAINT)
    assert watch.is_stuck()
