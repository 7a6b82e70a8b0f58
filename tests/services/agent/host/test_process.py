"""Workers as processes: none outlives its agent, nothing is left behind."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from services.agent.host.process import WorkerProcess, worker_environment
from services.agent.link.channel import framed
from services.agent.link.host_channel import HostChannel
from services.agent.link.messages import AttemptKey, IssueQuery
from tests.services.agent.builders import MANIFESTS, limits

AGENT = """
import asyncio, sys
from pathlib import Path

from services.agent.host.process import WorkerLimits, WorkerProcess

async def main():
    worker = await WorkerProcess.start("w", WorkerLimits(Path(sys.argv[1]), 1 << 20, 1 << 20))
    print(worker.pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def runs(pid: int) -> bool:
    """Say whether a process is there and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def environment_of(pid: int) -> bytes:
    """Return a process's environment, which the kernel shows a moment after its start."""
    while not (environment := Path(f"/proc/{pid}/environ").read_bytes()):
        time.sleep(0.01)
    return environment


def test_a_worker_ends_with_a_killed_agent(tmp_path: Path) -> None:
    command = [sys.executable, "-c", AGENT, str(tmp_path)]
    agent = subprocess.Popen(command, cwd=MANIFESTS.parent, stdout=subprocess.PIPE, text=True)
    assert agent.stdout is not None
    worker = int(agent.stdout.readline())
    assert runs(worker)
    agent.kill()
    agent.wait()
    agent.stdout.close()
    deadline = time.monotonic() + 20
    while runs(worker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not runs(worker)


async def test_closing_ends_the_process_and_leaves_no_file(tmp_path: Path) -> None:
    worker = await WorkerProcess.start("w", limits(tmp_path))
    assert worker.is_alive
    await worker.close()
    assert not runs(worker.pid)
    assert os.listdir(tmp_path) == []  # noqa: PTH208


async def test_a_worker_runs_on_the_cores_that_the_agent_began_with(tmp_path: Path) -> None:
    """A model of the agent's user can bind the agent to a core, and so slow later ones down."""
    cores = os.sched_getaffinity(0)
    if len(cores) == 1:
        pytest.skip("one core")
    os.sched_setaffinity(0, {min(cores)})
    try:
        worker = await WorkerProcess.start("w", limits(tmp_path))
    finally:
        os.sched_setaffinity(0, cores)
    assert os.sched_getaffinity(worker.pid) == cores
    await worker.close()


def place_of(pid: int) -> tuple[int, int, Path]:
    """Return a process's parent, its session, and its folder."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[1]), int(fields[3]), Path(f"/proc/{pid}/cwd").readlink()


@pytest.mark.usefixtures("forked_workers")
async def test_a_worker_that_tests_fork_is_a_child_with_a_session_of_its_own(
    tmp_path: Path,
) -> None:
    worker = await WorkerProcess.start("w", limits(tmp_path))
    assert place_of(worker.pid) == (os.getpid(), worker.pid, MANIFESTS.parent)
    worker.kill()
    assert "SIGKILL" in str(await worker.death())
    await worker.close()
    assert not runs(worker.pid)


def open_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


async def test_a_worker_that_can_t_be_started_leaves_no_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    open_before = open_descriptors()
    for _ in range(3):
        with pytest.raises(FileNotFoundError):
            await WorkerProcess.start("w", limits(tmp_path))
    assert open_descriptors() == open_before


async def test_a_worker_without_a_channel_has_ended(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ending_late: list[asyncio.subprocess.Process],
) -> None:
    async def fail(_: object) -> None:
        raise ConnectionError

    monkeypatch.setattr(HostChannel, "over", fail)
    with pytest.raises(ConnectionError):
        await WorkerProcess.start("w", limits(tmp_path))
    assert [process.returncode for process in ending_late] == [-signal.SIGKILL]


async def test_a_worker_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    worker = await WorkerProcess.start("w", limits(tmp_path))
    os.kill(worker.pid, signal.SIGSTOP)
    worker.kill()
    assert str(await worker.death()) == "worker was killed by SIGKILL (out of memory?)"
    await worker.close()


async def test_closing_does_not_wait_for_a_worker_that_hears_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its channel is stuffed with words that nobody takes."""
    monkeypatch.setattr("services.agent.host.process._CLOSE_S", 0.2)
    worker = await WorkerProcess.start("w", limits(tmp_path))
    os.kill(worker.pid, signal.SIGSTOP)
    query = IssueQuery(AttemptKey("e1", "r0", 1), 0, (0,), 1, payload=(bytes(8 << 20),))
    stuffing = asyncio.create_task(worker.send(query))
    await asyncio.sleep(0.1)
    assert not stuffing.done()
    async with asyncio.timeout(60):
        await worker.close()
        await stuffing
    assert not runs(worker.pid)


async def test_a_worker_s_own_last_words_are_kept(tmp_path: Path) -> None:
    worker = await WorkerProcess.start("w", limits(tmp_path))
    worker._channel._writer.write(framed(b"torn"))
    death = await worker.death()
    await worker.close()
    assert str(death).startswith("worker exited with 1: schemas.encoding.errors.MalformedMessage")


async def test_no_file_is_read_in_the_place_of_what_a_worker_wrote(tmp_path: Path) -> None:
    """A model may write into its scratch folder: a link there would lead to the agent's key."""
    secret, scratch = tmp_path / "agent.nk", tmp_path / "w" / "w"
    secret.write_text("SEED")
    worker = await WorkerProcess.start("w", limits(tmp_path / "w"))
    (scratch / "stderr").unlink(missing_ok=True)
    (scratch / "stderr").symlink_to(secret)
    worker.kill()
    death = await worker.death()
    await worker.close()
    assert str(death) == "worker was killed by SIGKILL (out of memory?)"


@pytest.mark.parametrize(
    ("name", "value", "is_passed_on"),
    [
        ("AWS_SECRET_ACCESS_KEY", "x", False),
        ("AWS_ACCESS_KEY_ID", "x", True),
        ("HF_TOKEN", "x", False),
        ("DB_PASS", "x", False),
        ("NATS_SEED", "x", False),
        ("MAX_TOKENS", "4096", True),
        ("NOTE", "Bearer abc", False),
        ("PGPASSWORD", "x", False),
        ("SSH_AUTH_SOCK", "/run/agent", False),
        ("DATABASE_URL", "postgres://me:x@host/db", False),
        ("https_proxy", "http://me:x@proxy:3128", True),
        ("TOKENIZERS_PARALLELISM", "false", True),
        ("PYTHONHASHSEED", "1", True),
        ("OLDPWD", "/", True),
    ],
)
def test_a_worker_gets_no_secret_of_its_agent_s_user(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, is_passed_on: bool
) -> None:
    monkeypatch.setenv(name, value)
    assert (name in worker_environment()) == is_passed_on


def test_the_owner_names_variables_that_are_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOBAL_SEED", "42")
    monkeypatch.setenv("MLSCOPE_X", "1")
    environment = worker_environment(passed=("GLOBAL_SEED", "MLSCOPE_X"))
    assert environment["GLOBAL_SEED"] == "42"
    assert "MLSCOPE_X" not in environment


async def test_a_worker_gets_the_variables_that_its_limits_name_and_compiles_into_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLOBAL_SEED", "42")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/of/the/agent")
    worker = await WorkerProcess.start("w", limits(tmp_path, passed_variables=("GLOBAL_SEED",)))
    environment = environment_of(worker.pid)
    await worker.close()
    assert b"GLOBAL_SEED=42" in environment
    assert b"TORCHINDUCTOR_CACHE_DIR=" + bytes(tmp_path) in environment


def test_onnxruntime_keeps_and_sends_nothing_of_its_own_in_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
    environment = worker_environment({"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)})
    script = "import os, onnxruntime; print(len(os.listdir('/proc/self/task')))"
    threads = subprocess.check_output([sys.executable, "-c", script], env=environment)
    assert (int(threads), list(tmp_path.rglob("*"))) == (1, [])


def test_what_workers_do_not_get_is_logged_once_by_name(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setenv("LOGGED_ONCE_PASS", "hunter2")
    worker_environment()
    worker_environment()
    (record,) = caplog.records
    assert "LOGGED_ONCE_PASS" in vars(record)["variables"]
    assert "hunter2" not in str(vars(record))


async def test_no_secret_of_the_agent_reaches_a_worker(tmp_path: Path) -> None:
    os.environ["MLSCOPE_NATS_SEED_FILE"] = "/keys/agent.nk"
    try:
        worker = await WorkerProcess.start("w", limits(tmp_path))
    finally:
        del os.environ["MLSCOPE_NATS_SEED_FILE"]
    environment = environment_of(worker.pid)
    await worker.close()
    assert b"MLSCOPE_" not in environment
