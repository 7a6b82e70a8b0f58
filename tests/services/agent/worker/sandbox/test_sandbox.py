"""Models in a real worker: one that reads a key, or writes a file, fails; what it needs, it has."""

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
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
from services.agent.worker.sandbox import sandbox  # noqa: E402
from services.agent.worker.sandbox.sandbox import reach_of, visible_in  # noqa: E402
from services.agent.worker.seccomp.installing import filter_fault  # noqa: E402
from tests.services.agent.builders import MANIFESTS, a_run, a_subject, an_order, carried_out  # noqa: E402
from tests.services.agent.mounting import needs_mounts  # noqa: E402

needs_landlock = pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock")
scripting_warns = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")

PRELUDE = """
import os, sys
from pathlib import Path

scratch, mine, secret = map(Path, sys.argv[1:4])
def outcome(action):
    try:
        action()
    except OSError as error:
        return type(error).__name__
    return "ok"
"""
BY_LANDLOCK = """
from services.agent.machine.landlock import confine
from services.agent.worker.sandbox.sandbox import reach_of

confine(reach_of([mine], scratch, [secret.parent]), ())
print(outcome(lambda: mine.read_bytes()), outcome(lambda: (scratch / "x").write_bytes(b"x")))
print(outcome(lambda: secret.read_bytes()), outcome(lambda: secret.write_bytes(b"")))
print(outcome(lambda: Path("/etc/shadow").read_bytes()), outcome(lambda: os.kill(os.getppid(), 0)))
print(outcome(lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes()))
import ssl, json, numpy
print("imports work")
"""
ENTERED = """
import numpy, shutil
from services.agent.link.fetched_file import FetchedFile
from services.agent.link.messages import PerformOrder
from services.agent.worker.sandbox.sandbox import enter_sandbox
from tests.services.agent.builders import MANIFESTS, an_order

def mitigations():
    lines = Path("/proc/self/status").read_text().splitlines()
    return [line for line in lines if line.startswith("Spec")]

tree = scratch / "tree"
tree.mkdir()
tree.chmod(0o2750)
before = mitigations()
enter_sandbox(PerformOrder(an_order(), MANIFESTS, {"mine": FetchedFile(mine, "")}), scratch)
print(len(os.listdir("/proc/self/task")), "thread")
(scratch / "x").write_bytes(b"x")
opened = os.open(mine, os.O_RDONLY)
for path in (mine, opened, secret, scratch / "x"):
    mode = os.stat(path).st_mode
    print(outcome(lambda: os.chmod(path, 0o4777)), os.stat(path).st_mode == mode)
    changes = [outcome(lambda: os.chown(path, 1, 1))]
    changes.append(outcome(lambda: os.setxattr(path, "user.x", b"x")))
    changes.append(outcome(lambda: os.removexattr(path, "user.x")))
    print(*sorted(set(changes)))
for copy, source in ((shutil.copy, mine), (shutil.copy2, mine), (shutil.copytree, tree)):
    print(outcome(lambda: copy(source, scratch / copy.__name__)))
print(numpy.ones((300, 300)).dot(numpy.ones((300, 300))).sum())
print(mitigations() == before)
"""
LEAVING = """
import signal, subprocess, time
from services.agent.worker.seccomp.model import refuse_rights

refuse_rights()
(scratch / "x").write_bytes(b"x")
if os.fork() == 0:
    os.setsid()
    os.setpgid(0, 0)
    alone = subprocess.Popen(["sleep", "60"], start_new_session=True)
    if os.fork() == 0:
        print(os.getpid(), alone.pid, flush=True)
        time.sleep(60)
    os._exit(0)
os.wait()
"""
CHANGED_BY_IOCTL = """
import errno, fcntl
from services.agent.worker.seccomp.model import refuse_rights

def error_of(request, argument):
    try:
        fcntl.ioctl(opened, request, argument)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "ok"

GET_FLAGS, SET_FLAGS, SET_ATTRIBUTES, READABLE_BYTES = 0x80086601, 0x40086602, 0x401C5820, 0x541B
opened = os.open(mine, os.O_RDONLY)
(scratch / "x").write_bytes(b"x")
flags = bytearray(8)
has_flags = error_of(GET_FLAGS, flags)
refuse_rights()
print(error_of(SET_FLAGS, bytes(flags)), error_of(SET_ATTRIBUTES, bytes(28)))
print(error_of(GET_FLAGS, flags) == has_flags, error_of(READABLE_BYTES, bytes(4)))
"""
ENTERING = """
from services.agent.link.fetched_file import FetchedFile
from services.agent.link.messages import PerformOrder
from services.agent.worker.sandbox.sandbox import enter_sandbox
from tests.services.agent.builders import MANIFESTS, an_order

enter_sandbox(PerformOrder(an_order(), MANIFESTS, {"mine": FetchedFile(mine, "")}), scratch)
(scratch / "x").write_bytes(b"x")
"""
LISTENING = (
    ENTERING
    + """
import socket
for port in (0, 4318, 4222, 14222, 80):
    print(outcome(lambda: socket.create_server(("127.0.0.1", port)).close()))
"""
)
UNIX_SOCKETS = """
import socket
from services.agent.worker.seccomp.model import refuse_rights

def made(family, kind):
    return outcome(lambda: socket.socket(family, kind).close())

refuse_rights(refused_unix=%s)
stream, datagram = socket.SOCK_STREAM, socket.SOCK_DGRAM
print(made(socket.AF_UNIX, stream), made(socket.AF_UNIX, stream | socket.SOCK_NONBLOCK))
print(made(socket.AF_UNIX, datagram), made(socket.AF_INET, stream), made(socket.AF_INET6, stream))
first, second = socket.socketpair()
first.sendall(b"pair")
print(second.recv(4))
(scratch / "x").write_bytes(b"x")
"""
NAMESPACES = """
import ctypes, errno, platform
from services.agent.worker.seccomp.model import refuse_rights

libc = ctypes.CDLL(None, use_errno=True)
clone, unshare = {"x86_64": (56, 272), "aarch64": (220, 97)}[platform.machine()]
CLONE3, CLONE_FS, SIGCHLD = 435, 0x200, 17
MOUNT, CGROUP, UTS, IPC, USER, PID, NET, TIME = (
    0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000, 0x80
)

def error_of(number, flags):
    # In a process of its own, which must not be in another namespace if the call passes.
    child = os.fork()
    if child == 0:
        before = os.getpid()
        result = libc.syscall(number, ctypes.c_ulong(flags), 0, 0, 0, 0)
        error = ctypes.get_errno() if result < 0 else 0
        os._exit(error if os.getpid() == before else 0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

refuse_rights()
(scratch / "x").write_bytes(b"x")
named = (MOUNT, CGROUP, UTS, IPC, USER, PID, NET, USER | NET, CLONE_FS | USER)
refused = [error_of(unshare, flags) for flags in (*named, TIME)]
refused += [error_of(clone, SIGCHLD | flags) for flags in named]
print({errno.errorcode.get(error, "passed") for error in refused})
print(errno.errorcode[error_of(CLONE3, 0)], error_of(unshare, CLONE_FS), error_of(clone, SIGCHLD))
"""
STARTING = """
import multiprocessing, subprocess, threading
from services.agent.worker.seccomp.model import refuse_rights

refuse_rights()
(scratch / "x").write_bytes(b"x")
import numpy, torch
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool:
    print(sum(pool.map(len, ("a", "bc", "def"))))
print(subprocess.run(["echo", "subprocess"], capture_output=True).stdout)
spawned = os.posix_spawn(sys.executable, [sys.executable, "-c", "exit(3)"], os.environ)
print(os.waitstatus_to_exitcode(os.waitpid(spawned, 0)[1]), os.system("exit 4") >> 8)
forked = multiprocessing.get_context("fork").Process(target=sys.exit, args=(5,))
forked.start()
forked.join()
print(forked.exitcode)
print(numpy.ones((300, 300)).dot(numpy.ones((300, 300))).sum())
torch.set_num_threads(4)
product = torch.ones(600, 600) @ torch.ones(600, 600)
print(product.sum().item(), torch.relu(torch.ones(1 << 20)).sum().item())
loader = torch.utils.data.DataLoader(list(range(8)), batch_size=4, num_workers=2)
print([batch.sum().item() for batch in loader])
"""
FAMILIES = """
import errno, socket
from services.agent.worker.seccomp.model import refuse_rights

def made(family, kind, protocol=0, of=socket.socket):
    try:
        of(family, kind, protocol)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "ok"

refuse_rights(refused_unix=%s)
(scratch / "x").write_bytes(b"x")
stream, datagram, raw = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW
PACKET, ALG, VSOCK, TIPC, XDP = 17, 38, 40, 30, 44
print(made(socket.AF_UNIX, datagram), made(socket.AF_INET, stream), made(socket.AF_INET6, datagram))
print(made(socket.AF_NETLINK, raw), bool(socket.if_nameindex()))
pair = made(socket.AF_UNIX, stream, 0, socket.socketpair)
print(socket.getaddrinfo("localhost", 80)[0][4][1], pair)
refused = [made(PACKET, raw), made(PACKET, datagram), made(ALG, socket.SOCK_SEQPACKET)]
refused += [made(VSOCK, stream), made(XDP, raw), made(TIPC, stream, 0, socket.socketpair)]
print(set(refused))
"""
TRACING = """
import ctypes, errno
from services.agent.worker.seccomp.model import refuse_rights

refuse_rights()
(scratch / "x").write_bytes(b"x")
libc = ctypes.CDLL(None, use_errno=True)
PTRACE_TRACEME = 0
print(libc.ptrace(PTRACE_TRACEME, 0, 0, 0), errno.errorcode.get(ctypes.get_errno()))
"""
BLOCKED = """
import signal, threading
from services.agent.worker.sandbox.sandbox import end_openblas_threads

threading.Thread(target=threading.Event().wait, daemon=True).start()
os.register_at_fork(after_in_child=signal.pause)
print(*end_openblas_threads(limit_s=0.1))
(scratch / "x").write_bytes(b"x")
"""
BLOCKED_BEFORE = """
import threading, time
from services.agent.worker.sandbox.sandbox import end_openblas_threads

threading.Thread(target=threading.Event().wait, daemon=True).start()
os.register_at_fork(before=lambda: time.sleep(60))
end_openblas_threads(limit_s=0.1)
"""
BY_MOUNTS = """
from services.agent.machine.mounts import hide

hide([secret.parents[1], Path("/root")], [mine, *map(Path, sys.path)], scratch, ())
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


def probe(folder: Path, script: str, *launcher: str) -> list[str]:
    """Return what a `script` prints that confines itself to files of `folder`; none is changed."""
    scratch, mine, secret = folder / "scratch", folder / "mine", folder / "keys" / "secret.nk"
    scratch.mkdir()
    secret.parent.mkdir()
    mine.write_text("mine")
    secret.write_text("secret")
    command = [*launcher, sys.executable, "-c", PRELUDE + script]
    ended = subprocess.run(
        [*command, str(scratch), str(mine), str(secret)],
        cwd=MANIFESTS.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert [path.read_text() for path in (scratch / "x", mine, secret)] == ["x", "mine", "secret"]
    return ended.stdout.splitlines()


@needs_landlock
def test_a_confined_process_reaches_its_own_files_alone(tmp_path: Path) -> None:
    assert probe(tmp_path, BY_LANDLOCK) == [
        "ok ok",
        "PermissionError PermissionError",
        "PermissionError PermissionError",
        "PermissionError",
        "imports work",
    ]


@needs_landlock
def test_a_worker_changes_no_mode_owner_or_attribute(tmp_path: Path) -> None:
    """Landlock lets a user's process change those of every file of the user.

    A change of a mode is left out without an error, so that copying works. Threads that ran before
    would stay outside, in reach of code that takes the process over.
    """
    paths = os.pathsep.join((str(MANIFESTS.parent), *filter(None, sys.path)))
    lines = probe(tmp_path, ENTERED, "env", f"PYTHONPATH={paths}", "OPENBLAS_NUM_THREADS=2")
    unchanged = ["ok True", "PermissionError"] * 4
    assert lines == ["1 thread", *unchanged, "ok", "ok", "ok", "27000000.0", "True"]
    assert (tmp_path / "mine").stat().st_mode & 0o7777 != 0o4777


needs_filter = pytest.mark.skipif(bool(filter_fault()), reason="calls can't be filtered here")


@needs_filter
def test_what_a_worker_starts_ends_with_its_group(tmp_path: Path) -> None:
    """It seems to leave the group, as `subprocess` with `start_new_session` expects."""
    pipe_out, pipe_in = os.pipe()
    folders = [tmp_path / name for name in ("scratch", "mine", "secret")]
    folders[0].mkdir()
    command = [sys.executable, "-c", PRELUDE + LEAVING, *map(str, folders)]
    with os.fdopen(pipe_out, "rb") as printed:
        worker = subprocess.Popen(
            command, cwd=MANIFESTS.parent, stdout=pipe_in, start_new_session=True
        )
        os.close(pipe_in)
        started = [int(word) for word in printed.readline().split()]
        assert worker.wait(30) == 0
        assert [os.getpgid(pid) for pid in started] == [worker.pid] * 2
        os.killpg(worker.pid, signal.SIGKILL)
        # The pipe ends once each process that could write into it has ended.
        assert printed.read() == b""


@needs_filter
def test_a_worker_changes_no_attribute_by_ioctl(tmp_path: Path) -> None:
    assert probe(tmp_path, CHANGED_BY_IOCTL) == ["EPERM EPERM", "True ok"]


@pytest.mark.parametrize(("refused_unix", "answer"), [("(1,)", "PermissionError"), ("()", "ok")])
def test_a_worker_of_its_agent_s_user_asks_no_service_of_that_user(
    tmp_path: Path, refused_unix: str, answer: str
) -> None:
    """Landlock does not keep it from docker's socket, by which it would be root."""
    lines = probe(tmp_path, UNIX_SOCKETS % refused_unix)
    assert lines == [f"{answer} {answer}", "ok ok ok", "b'pair'"]


@needs_filter
def test_a_worker_has_no_namespace_of_its_own(tmp_path: Path) -> None:
    """In one it would have all capabilities, and so reach parts of the kernel that root may."""
    assert probe(tmp_path, NAMESPACES) == ["{'EPERM'}", "ENOSYS 0 0"]


@needs_filter
def test_a_worker_starts_threads_and_processes(tmp_path: Path) -> None:
    """Without `clone3`, in whose place the C library calls `clone`."""
    paths = os.pathsep.join((str(MANIFESTS.parent), *filter(None, sys.path)))
    lines = probe(tmp_path, STARTING, "env", f"PYTHONPATH={paths}")
    assert lines[:4] == ["6", "b'subprocess\\n'", "3 4", "5"]
    assert lines[4:] == ["27000000.0", "216000000.0 1048576.0", "[6, 22]"]


@needs_filter
@pytest.mark.parametrize("refused_unix", ["(1, 5)", "()"])
def test_a_worker_makes_sockets_of_common_families_alone(tmp_path: Path, refused_unix: str) -> None:
    """Others are parts of the kernel that no model needs; their modules would be loaded."""
    lines = probe(tmp_path, FAMILIES % refused_unix)
    assert lines == ["ok ok ok", "ok True", "80 ok", "{'EAFNOSUPPORT'}"]


@needs_filter
def test_a_worker_traces_no_process(tmp_path: Path) -> None:
    assert probe(tmp_path, TRACING) == ["-1 EPERM"]


@pytest.mark.skipif(landlock_version() < 4, reason="needs Landlock with ports")
def test_a_worker_listens_on_no_port_of_the_cluster(tmp_path: Path) -> None:
    """A port that is free for a moment, as the broker starts again, would be the model's."""
    paths = os.pathsep.join((str(MANIFESTS.parent), *filter(None, sys.path)))
    lines = probe(tmp_path, LISTENING, "env", f"PYTHONPATH={paths}")
    assert lines == ["ok", "ok", *["PermissionError"] * 3]


@needs_landlock
@pytest.mark.skipif(os.getuid() != 0, reason="only root starts another user's program")
def test_a_sandbox_of_a_user_without_root_has_no_unix_sockets(tmp_path: Path) -> None:
    """A worker of root has become a user whom the services of others refuse."""
    tmp_path.chmod(0o777)
    script = ENTERING + 'print(outcome(lambda: __import__("socket").socket(1).close()))'
    assert probe(tmp_path, script)[-1] == "ok"


def test_a_library_that_blocks_a_fork_does_not_keep_a_worker_waiting(tmp_path: Path) -> None:
    (line,) = probe(tmp_path, BLOCKED)
    assert line == "sandbox: a library blocked a fork, which was killed after 0.1 s"


def test_a_library_that_blocks_before_a_fork_ends_the_worker(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError, match="SIGALRM"):
        probe(tmp_path, BLOCKED_BEFORE)


@needs_mounts
def test_where_landlock_is_absent_a_worker_of_root_reaches_its_own_files_alone(
    tmp_path: Path,
) -> None:
    """The scratch folder and the session's file lie where all else is hidden."""
    # Within mounts of its own: a fault must not hide the machine's folders.
    assert probe(tmp_path, BY_MOUNTS, "unshare", "--mount") == [
        "ok ok",
        "FileNotFoundError OSError",
        "OSError",
        "PermissionError",
        "PermissionError",
        "-1",
        "imports work",
    ]


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


def test_of_a_checkout_a_model_reaches_the_packages_alone(tmp_path: Path) -> None:
    """A backup, an `.env` or another cluster's data may lie beside them."""
    root = MANIFESTS.parent
    readable = reach_of([], tmp_path, []).readable
    for beside in ("pyproject.toml", ".git", ".env", "cluster.backup"):
        assert not [path for path in readable if (root / beside).is_relative_to(path)]
    for package in ("cli", "mlscope", "schemas", "services", "tests"):
        assert [path for path in readable if (root / package).is_relative_to(path)]


@pytest.mark.parametrize("pattern", ["ptm?", "/dev/ptmx"])
def test_the_owner_names_further_devices(tmp_path: Path, pattern: str) -> None:
    device = Path("/dev/ptmx")
    assert device not in reach_of([], tmp_path, []).writable
    assert device in reach_of([], tmp_path, [], [pattern]).writable


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
    filtered: list[bool] = []
    for name in ("HOME", "PYTHONUSERBASE"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr(sandbox, "confine", lambda reach, _: reaches.append(reach))
    # The real filter would stay with this process, and refuse `chmod` to all tests after this one.
    monkeypatch.setattr(sandbox, "refuse_rights", lambda **_: filtered.append(True))
    monkeypatch.setattr(sandbox, "landlock_version", lambda: 7)
    order = an_order(a_subject().model_copy(update={"device": device}))
    session = order.session.model_copy(update={"variant": variant})
    order = order.model_copy(update={"session": session})
    # Nor may this process become another user.
    allowances = replace(DEFAULT_ALLOWANCES, worker_user="agent")
    message = PerformOrder(order, MANIFESTS, {}, allowances, NO_ROOF)
    sandbox.enter_sandbox(message, tmp_path)
    assert bool(reaches) == bool(filtered) == is_confined
    threads = Path("/proc/self/task")
    assert all((threads in reach.writable) == (device == "gpu") for reach in reaches)


NO_LANDLOCK = """from services.agent.machine import landlock
landlock.landlock_version = lambda: 0
"""
UNFILTERED = """from services.agent.worker.seccomp.machines import MACHINES
MACHINES.clear()
"""


@needs_landlock
@pytest.mark.parametrize("sandbox", ["auto", "required"])
async def test_without_a_filter_of_calls_only_a_required_sandbox_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sandbox: str
) -> None:
    """As on a kernel without seccomp, or on another architecture."""
    patch_workers(tmp_path, monkeypatch, UNFILTERED)
    allowances = replace(DEFAULT_ALLOWANCES, sandbox=sandbox)
    outcome = await carried_out(an_order(), tmp_path / "w", allowances=allowances)
    if sandbox == "auto":
        notes = list(outcome.completed().caveats)
    else:
        notes = [failed.message for failed in outcome.of(RunFailed)]
    assert any("no filter of system calls" in note for note in notes)


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


def order_of(module: Any, manifests: Path, **changes: Any) -> WorkOrder:
    """Return an order of a module, stored as TorchScript in a folder of manifests.

    `changes` are those of its subject.
    """
    (manifests / "models").mkdir(parents=True)
    (manifests / "datasets").mkdir()
    torch.jit.save(torch.jit.script(module), manifests / "models" / "net.pt")
    graph = (manifests / "models" / "net.pt").read_bytes()
    subject = a_subject(framework="pytorch", **changes)
    assets = Assets(graph_path="net.pt", checksum=hashlib.sha256(graph).hexdigest())
    model = subject.model.model_copy(
        update={"framework": FrameworkNeed(name="pytorch"), "model": assets}
    )
    return an_order(subject.model_copy(update={"model": model}), (a_run(queries=1),))


def patch_workers(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Let each worker run a `script`, written below `folder`, when it starts."""
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(script)
    paths = (folder / "site", MANIFESTS.parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, paths)))


@pytest.fixture(
    params=[
        pytest.param("landlock", marks=needs_landlock),
        pytest.param("mounts", marks=needs_mounts),
    ]
)
def refusals(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Sequence[str]:
    """Confine workers in one of two ways; return what the error of a file says that is refused."""
    if request.param == "landlock":
        return ("Permission denied",)
    patch_workers(tmp_path, monkeypatch, NO_LANDLOCK)
    return ("No such file", "Read-only")


async def spied(folder: Path, name: str, *, shared: bool = False, **changes: Any) -> str:
    """Return how a run of a model fails that opens a secret file, which stays as it is.

    `name` is the file's below `folder`; `changes` are those of the model's subject.
    """
    secret = folder / name
    secret.parent.mkdir(exist_ok=True)
    secret.write_bytes(b"SEED")
    order = order_of(Spy(str(secret), shared), folder / "manifests", **changes)
    said = await carried_out(order, folder / "w", manifests=folder / "manifests")
    assert secret.read_bytes() == b"SEED"
    (failed,) = said.of(RunFailed)
    return failed.message


@scripting_warns
@pytest.mark.parametrize("shared", [False, True], ids=["read", "write"])
async def test_a_model_cannot_read_a_key_nor_write_a_file(
    tmp_path: Path, refusals: Sequence[str], shared: bool
) -> None:
    """The attack as it was found: a key came back as a prediction, and files were written."""
    message = await spied(tmp_path, "keys/scheduler.nk", shared=shared)
    assert any(refusal in message for refusal in refusals)


@scripting_warns
async def test_a_model_cannot_read_a_file_of_its_agent_s_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusals: Sequence[str]
) -> None:
    """Python would look for modules there, and a worker reads what Python does."""
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "home")
    message = await spied(tmp_path, "home/id_rsa")
    assert any(refusal in message for refusal in refusals)


@scripting_warns
@pytest.mark.usefixtures("refusals")
async def test_a_model_that_only_computes_is_measured(tmp_path: Path) -> None:
    order = order_of(Double(), tmp_path / "manifests")
    said = await carried_out(order, tmp_path / "w", manifests=tmp_path / "manifests")
    assert said.completed().tally.queries == 1


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
