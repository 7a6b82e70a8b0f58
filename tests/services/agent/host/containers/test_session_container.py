"""A worker in a container: its link, its end, and what it is given; the engine is a stand-in."""

import asyncio
import errno
import os
import signal
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from schemas.batch import OutputsPredicted
from services.agent.errors import ContainerRefused
from services.agent.host.containers import engine as engine_module
from services.agent.host.containers import session_container
from services.agent.host.containers.engine import Engine
from services.agent.host.containers.session_container import SessionContainer
from services.agent.host.execution import Execution
from services.agent.host.process import WorkerProcess
from services.agent.host.publishing.outcome_publisher import OutcomePublisher
from tests.services.agent.builders import MANIFESTS, Kept, a_subject, an_order, limits
from tests.services.agent.host.containers.engines import DIGEST, IMAGE, READY, FakeEngine


def a_container(fake: FakeEngine, *readable: Path) -> SessionContainer:
    """Return the container of a session that reads the manifests, and `readable`."""
    engine, owner = Engine(str(fake.program), is_podman=False), fake.program.parent
    files = (MANIFESTS, *readable)
    return SessionContainer(engine, "docker 28.2.2", IMAGE, DIGEST, "c1", owner, "cpu", files)


@pytest.fixture
def fake(tmp_path: Path) -> FakeEngine:
    """Return an engine that has the image."""
    folder = tmp_path / "engine"
    folder.mkdir()
    engine = FakeEngine(folder)
    engine.has(images={IMAGE: READY})
    return engine


def answers_of(kept: Kept) -> list[object]:
    """Return what the model answered, without the attempt's own names."""
    return [fact.model_dump(exclude={"sequence"}) for fact in kept.of(OutputsPredicted)]


async def measured(folder: Path, container: SessionContainer | None) -> Kept:
    """Do an order in a worker, in a container or none, and return what is said of it."""
    kept, order = Kept(), an_order(a_subject(outputs=8))
    worker = await WorkerProcess.start("w", limits(folder), {}, container)
    try:
        execution = Execution(OutcomePublisher(order, kept), worker, MANIFESTS, 30.0)
        await execution.carry_out()
    finally:
        await worker.close()
    return kept


async def test_a_session_in_a_container_answers_as_without_one(
    tmp_path: Path, fake: FakeEngine
) -> None:
    within = await measured(tmp_path / "within", a_container(fake))
    without = await measured(tmp_path / "without", None)
    assert answers_of(within) == answers_of(without) != []
    assert within.completed().tally == without.completed().tally
    conditions = within.completed().conditions
    assert (conditions.container, conditions.container_digest) == (IMAGE, DIGEST)
    assert conditions.container_engine == "docker 28.2.2"
    assert without.completed().conditions.container == ""


async def test_it_leaves_no_container_and_no_file(tmp_path: Path, fake: FakeEngine) -> None:
    folder = tmp_path / "workers"
    await measured(folder, a_container(fake))
    assert fake.commands("rm") == [["rm", "--force", "c1"]]
    assert list(folder.iterdir()) == []


async def test_a_container_reads_its_session_s_files_and_reaches_no_network(
    tmp_path: Path, fake: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLSCOPE_NATS_SEED_FILE", "/keys/agent.nk")
    fetched = tmp_path / "a,b.onnx"
    fetched.touch()
    container = replace(
        a_container(fake, fetched, tmp_path / "absent"), memory_bytes=1 << 30, processes=7
    )
    worker = await WorkerProcess.start(
        "w", limits(tmp_path / "w"), {"OMP_NUM_THREADS": "1"}, container
    )
    await worker.close()
    (command,) = fake.commands("run")
    mounts = [command[n + 1] for n, part in enumerate(command) if part == "--mount"]
    scratch = tmp_path / "w" / "w"
    assert mounts[0] == f"type=bind,source={scratch},target={scratch}"
    assert sorted(mount.rpartition(",")[2] for mount in mounts[1:]) == ["readonly", "readonly"]
    assert f'"source={fetched}"' in "".join(mounts)
    text = " ".join(command)
    assert "--network none" in text
    assert "--memory 1073741824b" in text
    assert "--pids-limit 7" in text
    assert "--cap-drop ALL" in text
    assert "--tmpfs /tmp:size=1g" in text
    assert f"--label mlscope.agent={fake.program.parent}" in text
    assert "OMP_NUM_THREADS=1" in text
    assert "MLSCOPE" not in text


def files_in(folder: Path) -> set[Path]:
    """Return the files below a folder."""
    return {path for path in folder.rglob("*") if path.is_file()}


async def test_of_many_files_nothing_beside_them_is_mounted(
    tmp_path: Path, fake: FakeEngine
) -> None:
    home = tmp_path / "home"
    files = [home / f"class-{number}" / "x.npy" for number in range(300)]
    for file in (*files, home / "key"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(file.name)
    container = a_container(fake, *files)
    worker = await WorkerProcess.start("w", limits(home / "data"), {}, container)
    (command,) = fake.commands("run")
    assert not any(f"source={home}," in part or str(home / "key") in part for part in command)
    (mount,) = [part for part in command if part.endswith(f"target={home},readonly")]
    links = Path(mount.split(",")[1].removeprefix("source="))
    assert files_in(links) == {links / file.relative_to(home) for file in files}
    assert (links / "data" / "w").is_dir()
    await worker.close()
    assert files_in(links) == set()
    assert {*files, home / "key"} <= files_in(home)


async def test_many_files_that_can_t_be_linked_are_refused(
    tmp_path: Path, fake: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(source: Path, target: Path) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    files = [tmp_path / f"{number}.npy" for number in range(300)]
    for file in files:
        file.touch()
    monkeypatch.setattr(os, "link", link)
    with pytest.raises(ContainerRefused, match=r"can't be linked: .*Invalid cross-device link"):
        await WorkerProcess.start("w", limits(tmp_path / "w"), {}, a_container(fake, *files))
    assert fake.commands("run") == []


async def test_a_long_path_has_a_socket(tmp_path: Path, fake: FakeEngine) -> None:
    folder = tmp_path / ("long" * 50)
    worker = await WorkerProcess.start("w", limits(folder), {}, a_container(fake))
    assert worker.is_alive
    await worker.close()


async def test_an_engine_that_starts_nothing_is_quoted(tmp_path: Path, fake: FakeEngine) -> None:
    open_before = len(os.listdir("/dev/fd"))  # noqa: PTH208
    fake.has(images={})
    with pytest.raises(ContainerRefused, match=f"can't be started: No such image: {DIGEST}"):
        await WorkerProcess.start("w", limits(tmp_path / "w"), {}, a_container(fake))
    assert len(os.listdir("/dev/fd")) == open_before  # noqa: PTH208
    assert fake.commands("rm")


async def test_a_killed_worker_ends_its_container(tmp_path: Path, fake: FakeEngine) -> None:
    worker = await WorkerProcess.start("w", limits(tmp_path / "w"), {}, a_container(fake))
    os.kill(worker.pid, signal.SIGSTOP)
    worker.kill()
    assert str(await worker.death()) == "worker was killed by SIGKILL (out of memory?)"
    await worker.close()


async def test_a_removal_that_hangs_ends(
    tmp_path: Path, fake: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "_REMOVE_S", 0.3)
    worker = await WorkerProcess.start("w", limits(tmp_path / "w"), {}, a_container(fake))
    fake.has(hangs=["rm"])
    await worker.close()
    await fake.nothing_hangs()


async def test_a_session_ends_without_its_engine(tmp_path: Path, fake: FakeEngine) -> None:
    worker = await WorkerProcess.start("w", limits(tmp_path / "w"), {}, a_container(fake))
    fake.program.unlink()
    await worker.close()
    assert not worker.is_alive


async def test_a_worker_that_does_not_connect_is_refused_and_removed(
    tmp_path: Path, fake: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_container, "_START_S", 0.3)
    fake.has(images={IMAGE: {**READY, "hangs": True}})
    with pytest.raises(ContainerRefused, match=r"its worker did not start in 0\.3 s"):
        await WorkerProcess.start("w", limits(tmp_path / "w"), {}, a_container(fake))
    assert fake.commands("rm") == [["rm", "--force", "c1"]]


async def test_an_engine_has_ended_before_its_container_is_removed(
    tmp_path: Path,
    fake: FakeEngine,
    monkeypatch: pytest.MonkeyPatch,
    ending_late: list[asyncio.subprocess.Process],
) -> None:
    codes: list[int | None] = []

    async def remove(_: SessionContainer) -> None:
        codes.extend(process.returncode for process in ending_late)

    monkeypatch.setattr(session_container, "_START_S", 0.1)
    monkeypatch.setattr(SessionContainer, "remove", remove)
    fake.has(images={IMAGE: {**READY, "hangs": True}})
    with pytest.raises(ContainerRefused):
        await WorkerProcess.start("w", limits(tmp_path / "w"), {}, a_container(fake))
    assert codes == [-signal.SIGKILL]


async def test_a_worker_that_dies_before_it_has_its_link_is_removed(
    tmp_path: Path, fake: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> int:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(socket, "send_fds", broken)
    open_before = len(os.listdir("/dev/fd"))  # noqa: PTH208
    with pytest.raises(BrokenPipeError):
        await WorkerProcess.start("w", limits(tmp_path / "w"), {}, a_container(fake))
    assert fake.commands("rm") == [["rm", "--force", "c1"]]
    assert len(os.listdir("/dev/fd")) == open_before  # noqa: PTH208


async def test_a_process_that_took_the_worker_s_id_is_not_killed(
    tmp_path: Path, fake: FakeEngine
) -> None:
    container = a_container(fake)
    worker = await WorkerProcess.start("w", limits(tmp_path / "w"), {}, container)
    worker.kill()
    await worker.death()
    neighbour = await asyncio.create_subprocess_exec("sleep", "600")
    # As if the kernel had given it the id.
    container.pid = neighbour.pid
    await worker.close()
    neighbour.terminate()
    assert await neighbour.wait() == -signal.SIGTERM


@pytest.mark.parametrize(("code", "ending"), [(255, "exited with 255"), (168, "exited with 168")])
async def test_an_exit_code_that_is_no_signal_s_is_the_worker_s_own(
    tmp_path: Path, fake: FakeEngine, code: int, ending: str
) -> None:
    fake.has(images={IMAGE: {**READY, "ends_with": code}})
    worker = await WorkerProcess.start("w", limits(tmp_path / "w"), {}, a_container(fake))
    os.kill(worker.pid, signal.SIGKILL)
    assert str(await worker.death()) == f"worker {ending}"
    await worker.close()


@pytest.mark.parametrize(("code", "status"), [(0, 0), (1, 1), (137, -9), (139, -11)])
def test_the_engine_s_exit_code_tells_a_signal(code: int, status: int) -> None:
    assert SessionContainer.status_of(code) == status
