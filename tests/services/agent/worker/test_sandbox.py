"""Models in a real worker: one that reads a key, or writes a file, fails; what it needs, it has."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from schemas.manifest import Assets, FrameworkNeed  # noqa: E402
from schemas.plan import WorkOrder  # noqa: E402
from schemas.run import RunFailed  # noqa: E402
from services.agent.link.allowances import DEFAULT_ALLOWANCES  # noqa: E402
from services.agent.link.messages import PerformOrder  # noqa: E402
from services.agent.machine.landlock import Reach, landlock_version  # noqa: E402
from services.agent.machine.roofline.ceilings import NO_ROOF  # noqa: E402
from services.agent.worker import sandbox  # noqa: E402
from services.agent.worker.sandbox import reach_of, visible_in  # noqa: E402
from tests.services.agent.builders import MANIFESTS, a_run, a_subject, an_order, carried_out  # noqa: E402

needs_landlock = pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock")

CONFINED = """
import os, sys
from pathlib import Path
from services.agent.machine.landlock import confine
from services.agent.worker.sandbox import reach_of

scratch, mine, secret = map(Path, sys.argv[1:4])
confine(reach_of([mine], scratch, [secret.parent]), ())
def outcome(action):
    try:
        action()
    except OSError as error:
        return type(error).__name__
    return "ok"
print(outcome(lambda: mine.read_bytes()), outcome(lambda: (scratch / "x").write_bytes(b"x")))
print(outcome(lambda: secret.read_bytes()), outcome(lambda: secret.write_bytes(b"")))
print(outcome(lambda: Path("/etc/shadow").read_bytes()), outcome(lambda: os.kill(os.getppid(), 0)))
print(outcome(lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes()))
import ssl, json, numpy
print("imports work")
"""


@needs_landlock
def test_a_confined_process_reaches_its_own_files_alone(tmp_path: Path) -> None:
    scratch, mine, secret = tmp_path / "scratch", tmp_path / "mine", tmp_path / "keys" / "secret.nk"
    scratch.mkdir()
    secret.parent.mkdir()
    mine.write_text("mine")
    secret.write_text("secret")
    ended = subprocess.run(
        [sys.executable, "-c", CONFINED, str(scratch), str(mine), str(secret)],
        cwd=MANIFESTS.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.splitlines() == [
        "ok ok",
        "PermissionError PermissionError",
        "PermissionError PermissionError",
        "PermissionError",
        "imports work",
    ]
    assert secret.read_text() == "secret"


WITHOUT_LANDLOCK = """
import os, sys
from pathlib import Path
from services.agent.machine.mounts import hide

scratch, mine, secret = map(Path, sys.argv[1:4])
hide([secret.parents[1], Path("/root")], [mine, *map(Path, sys.path)], scratch, ())
def outcome(action):
    try:
        action()
    except OSError as error:
        return type(error).__name__
    return "ok"
print(outcome(lambda: mine.read_bytes()), outcome(lambda: (scratch / "x").write_bytes(b"x")))
print(outcome(lambda: secret.read_bytes()), outcome(lambda: mine.write_bytes(b"")))
print(outcome(lambda: Path("/etc/mlscope-was-here").write_bytes(b"")))
print(outcome(lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes()))
print(outcome(lambda: Path(f"/proc/{os.getppid()}/root", *secret.parts[1:]).read_bytes()))
import ctypes
print(ctypes.CDLL(None).umount2(str(secret.parents[1]).encode(), 2))
import ssl, json, numpy
print("imports work")
"""


def _may_mount() -> bool:
    """Tell whether this process may have mounts of its own, as root of a machine may."""
    unshared = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return os.geteuid() == 0 and unshared.returncode == 0


@pytest.mark.skipif(not _may_mount(), reason="needs root that may mount")
def test_where_landlock_is_absent_a_worker_of_root_reaches_its_own_files_alone(
    tmp_path: Path,
) -> None:
    """The scratch folder and the session's file lie where all else is hidden."""
    scratch, mine, secret = tmp_path / "scratch", tmp_path / "mine", tmp_path / "keys" / "secret.nk"
    scratch.mkdir()
    secret.parent.mkdir()
    mine.write_text("mine")
    secret.write_text("secret")
    command = [sys.executable, "-c", WITHOUT_LANDLOCK]
    ended = subprocess.run(
        # Within mounts of its own: a fault must not hide the machine's folders.
        ["unshare", "--mount", *command, str(scratch), str(mine), str(secret)],
        cwd=MANIFESTS.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.splitlines() == [
        "ok ok",
        "FileNotFoundError OSError",
        "OSError",
        "PermissionError",
        "PermissionError",
        "-1",
        "imports work",
    ]
    assert (scratch / "x").read_text() == "x"
    assert (mine.read_text(), secret.read_text()) == ("mine", "secret")


def test_what_is_hidden_is_left_out_of_a_folder(tmp_path: Path) -> None:
    for name in ("package/module", "data/keys/secret", "data/open/file"):
        (tmp_path / name).mkdir(parents=True)
    hidden = (tmp_path / "data" / "keys",)
    assert list(visible_in(tmp_path, hidden)) == [tmp_path / "data" / "open", tmp_path / "package"]
    assert list(visible_in(tmp_path / "package", hidden)) == [tmp_path / "package"]
    assert list(visible_in(hidden[0] / "secret", hidden)) == []


def test_the_programs_are_reached_and_the_cluster_s_data_are_not(tmp_path: Path) -> None:
    reach = reach_of([], tmp_path, [MANIFESTS])
    assert not [path for path in reach.readable if path.is_relative_to(MANIFESTS)]
    assert any(Path(sys.prefix).resolve().is_relative_to(path) for path in reach.readable)
    assert tmp_path in reach.writable


@pytest.mark.parametrize(
    ("device", "variant", "is_confined"),
    [("cpu", "counters", True), ("gpu", "", True), ("gpu", "counters", False)],
)
def test_on_a_gpu_a_worker_may_name_its_threads_and_replays_are_free(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    device: str,
    variant: str,
    is_confined: bool,
) -> None:
    """CUDA does not start without the names, and the rule does not hold in a process of `ncu`'s."""
    reaches: list[Reach] = []
    for name in ("HOME", "PYTHONUSERBASE"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr(sandbox, "confine", lambda reach, _: reaches.append(reach))
    monkeypatch.setattr(sandbox, "landlock_version", lambda: 7)
    order = an_order(a_subject().model_copy(update={"device": device}))
    session = order.session.model_copy(update={"variant": variant})
    order = order.model_copy(update={"session": session})
    message = PerformOrder(order, MANIFESTS, {}, DEFAULT_ALLOWANCES, NO_ROOF)
    sandbox.enter_sandbox(message, tmp_path)
    assert bool(reaches) == is_confined
    threads = Path("/proc/self/task")
    assert all((threads in reach.writable) == (device == "gpu") for reach in reaches)


class Spy(torch.nn.Module):  # type: ignore[misc,name-defined,unused-ignore]
    """Answers with the bytes of a file; `shared` maps it for writing and makes what is missing."""

    def __init__(self, path: str, shared: bool) -> None:
        super().__init__()
        self.path, self.shared = path, shared

    def forward(self, x: Tensor) -> Tensor:
        """Return the input and the file's first bytes, added up."""
        return x + torch.from_file(self.path, self.shared, 4, dtype=torch.uint8).sum()


class Double(torch.nn.Module):  # type: ignore[misc,name-defined,unused-ignore]
    """Computes and does nothing else."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the double of the input."""
        return x * 2


def order_of(module: Any, manifests: Path) -> WorkOrder:
    """Return an order of a module, stored as TorchScript in a folder of manifests."""
    (manifests / "models").mkdir(parents=True)
    (manifests / "datasets").mkdir()
    torch.jit.save(torch.jit.script(module), manifests / "models" / "net.pt")
    graph = (manifests / "models" / "net.pt").read_bytes()
    subject = a_subject(framework="pytorch")
    assets = Assets(graph_path="net.pt", checksum=hashlib.sha256(graph).hexdigest())
    model = subject.model.model_copy(
        update={"framework": FrameworkNeed(name="pytorch"), "model": assets}
    )
    return an_order(subject.model_copy(update={"model": model}), (a_run(queries=1),))


@needs_landlock
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.parametrize("shared", [False, True], ids=["read", "write"])
async def test_a_model_cannot_read_a_key_nor_write_a_file(tmp_path: Path, shared: bool) -> None:
    """The attack as it was found: a key came back as a prediction, and files were written."""
    secret = tmp_path / "keys" / "scheduler.nk"
    secret.parent.mkdir()
    secret.write_bytes(b"SEED")
    order = order_of(Spy(str(secret), shared), tmp_path / "manifests")
    said = await carried_out(order, tmp_path / "w", manifests=tmp_path / "manifests")
    (failed,) = said.of(RunFailed)
    assert "Permission denied" in failed.message
    assert secret.read_bytes() == b"SEED"


@needs_landlock
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
async def test_a_model_that_only_computes_is_measured(tmp_path: Path) -> None:
    order = order_of(Double(), tmp_path / "manifests")
    said = await carried_out(order, tmp_path / "w", manifests=tmp_path / "manifests")
    assert said.completed().tally.queries == 1


@pytest.fixture
def without_landlock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers see a kernel without Landlock."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(
        "from services.agent.machine import landlock\nlandlock.landlock_version = lambda: 0\n"
    )
    paths = (tmp_path / "site", MANIFESTS.parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, paths)))


@pytest.mark.skipif(not _may_mount(), reason="needs root that may mount")
@pytest.mark.usefixtures("without_landlock")
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.parametrize("shared", [False, True], ids=["read", "write"])
async def test_without_landlock_a_model_of_root_cannot_read_a_key_nor_write_a_file(
    tmp_path: Path, shared: bool
) -> None:
    secret = tmp_path / "keys" / "scheduler.nk"
    secret.parent.mkdir()
    secret.write_bytes(b"SEED")
    order = order_of(Spy(str(secret), shared), tmp_path / "manifests")
    said = await carried_out(order, tmp_path / "w", manifests=tmp_path / "manifests")
    (failed,) = said.of(RunFailed)
    assert "No such file" in failed.message or "Read-only" in failed.message
    assert secret.read_bytes() == b"SEED"


@pytest.mark.skipif(not _may_mount(), reason="needs root that may mount")
@pytest.mark.usefixtures("without_landlock")
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
async def test_without_landlock_a_model_that_only_computes_is_measured(tmp_path: Path) -> None:
    order = order_of(Double(), tmp_path / "manifests")
    said = await carried_out(order, tmp_path / "w", manifests=tmp_path / "manifests")
    assert said.completed().tally.queries == 1


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.parametrize(
    "way",
    [
        pytest.param("landlock", marks=needs_landlock),
        pytest.param("mounts", marks=pytest.mark.skipif(not _may_mount(), reason="no mounts")),
    ],
)
async def test_a_model_cannot_read_a_file_of_its_agent_s_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, way: str
) -> None:
    """Python would look for modules there, and a worker reads what Python does."""
    if way == "mounts":
        request.getfixturevalue("without_landlock")
    secret = tmp_path / "home" / "id_rsa"
    secret.parent.mkdir()
    secret.write_bytes(b"SEED")
    monkeypatch.chdir(secret.parent)
    order = order_of(Spy(str(secret), shared=False), tmp_path / "manifests")
    said = await carried_out(order, tmp_path / "w", manifests=tmp_path / "manifests")
    (failed,) = said.of(RunFailed)
    assert "Permission denied" in failed.message or "No such file" in failed.message


@needs_landlock
async def test_a_framework_that_keeps_files_at_home_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("openvino")
    kept = tmp_path / "home" / "intel" / "openvino_ga_cid"
    kept.parent.mkdir(parents=True)
    kept.write_text("an id")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    order = an_order(a_subject(framework="openvino"), (a_run(queries=1),))
    said = await carried_out(order, tmp_path / "w")
    assert said.completed().tally.queries == 1
    assert kept.read_text() == "an id"
