"""A worker of root in its sandbox is a user of its own, unless it needs what only root has."""

import errno
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.agent.machine.landlock import Capability, landlock_version
from services.agent.worker.sandbox import own_user
from services.agent.worker.sandbox.own_user import (
    Needs,
    can_change_user,
    check_programs,
    groups_of,
    why_closed,
)
from tests.services.agent.builders import MANIFESTS

needs_root = pytest.mark.skipif(
    not can_change_user() or not landlock_version(), reason="needs root and Landlock"
)

ENTERED = """
import getpass, json, os, socket, subprocess, sys
from pathlib import Path
from services.agent.link.allowances import Allowances
from services.agent.link.messages import PerformOrder
from services.agent.machine.landlock import Capability, drop_capabilities
from services.agent.worker.sandbox import sandbox
from tests.services.agent.builders import MANIFESTS, a_subject, an_order

CHILD = "import os; print(os.getuid(), open('/proc/self/status').read())"

def asked(kind, service):
    try:
        return socket.socket(socket.AF_UNIX, kind).connect_ex(service)
    except OSError as error:
        return error.errno

def look(folder, given_up, device, **allowed):
    drop_capabilities({*range(64)} - {given_up})
    order = an_order(a_subject().model_copy(update={"device": device}))
    (folder / "home").mkdir(parents=True)
    notes = sandbox.enter_sandbox(PerformOrder(order, MANIFESTS, {}, Allowances(**allowed)), folder)
    child, *status = subprocess.check_output([sys.executable, "-Sc", CHILD], text=True).split()
    (folder / "home" / "file").touch()
    connection = asked(socket.SOCK_STREAM, str(folder.parent / "service"))
    packets = asked(socket.SOCK_SEQPACKET, str(folder.parent / "none"))
    owner = os.stat("/proc/self/io").st_uid
    users = [*{owner, *os.getresuid(), *os.getresgid()}, *os.getgroups()]
    capabilities = status[status.index("CapEff:") + 1]
    assert os.access(folder / "home", os.W_OK)
    seen = int(child), int(capabilities, 16), getpass.getuser(), packets
    return users, [*notes], connection, *seen

for case, device, given_up, allowed in (
    ("auto", "cpu", None, {}),
    ("own", "gpu", None, {"worker_user": "own"}),
    ("nvidia", "gpu", None, {}),
    ("agent", "cpu", None, {"worker_user": "agent"}),
    ("accelerator", "gpu", None, {}),
    ("cuda-agent", "gpu", None, {"worker_user": "agent"}),
    ("device", "cpu", None, {"devices": ("console",)}),
    ("unread", "cpu", Capability.DAC_READ_SEARCH, {}),
):
    has_driver = case in ("nvidia", "cuda-agent")
    sandbox._NVIDIA = (Path("/dev/none"), Path("/dev/null" if has_driver else "/dev/nothing"))
    if os.fork() == 0:
        seen = look(Path(sys.argv[1], case), given_up, device, **allowed)
        print(json.dumps([case, *seen]), flush=True)
        os._exit(0)
    os.wait()
"""
Looks = dict[str, tuple[list[int], list[str], int, int, int, str, int]]
"""By case: user and groups, notes, errno of a connection, a child's user and capabilities, name,
and errno of a connection for packets to no service."""


@pytest.fixture(scope="module")
def looks(tmp_path_factory: pytest.TempPathFactory) -> Looks:
    """Return what processes of root see of themselves once they have entered the sandbox.

    Their folder is root's alone, as /root is; libraries ask whether they may write into it.
    """
    folder = tmp_path_factory.mktemp("own")
    with socket.socket(socket.AF_UNIX) as service:
        service.bind(str(folder / "service"))
        service.listen()
        command = [sys.executable, "-c", ENTERED, str(folder)]
        printed = subprocess.check_output(command, cwd=MANIFESTS.parent, text=True)
    assert (folder / "auto" / "home" / "file").stat().st_uid > 0
    return {case: look for case, *look in map(json.loads, printed.splitlines())}


@needs_root
def test_a_worker_of_root_is_a_user_of_its_own_whom_no_service_takes_for_root(looks: Looks) -> None:
    """A service such as docker's makes whoever may connect to its socket root."""
    (user, *groups), notes, connection, child, capabilities, name, _ = looks["auto"]
    assert (groups, notes, connection, name) == ([], [], errno.EACCES, "mlscope-worker")
    assert user == child > 0x78000000
    reading = 1 << Capability.DAC_READ_SEARCH
    assert capabilities & ~(1 << Capability.IPC_LOCK) == reading


@needs_root
@pytest.mark.parametrize("case", ["own", "nvidia"])
def test_for_an_accelerator_a_worker_of_root_is_that_where_it_was_tried_or_is_wanted(
    looks: Looks, case: str
) -> None:
    (user, *_), _, connection, _, capabilities, *_ = looks[case]
    assert user > 0x78000000
    assert connection == errno.EACCES
    assert capabilities >> Capability.SYS_ADMIN & 1


@needs_root
@pytest.mark.parametrize(
    ("case", "answer"),
    [
        ("auto", errno.ENOENT),
        ("agent", errno.EACCES),
        ("accelerator", errno.EACCES),
        ("cuda-agent", errno.ENOENT),
    ],
)
def test_only_beside_cuda_a_worker_that_stays_root_may_connect_for_packets(
    looks: Looks, case: str, answer: int
) -> None:
    """CUDA listens so; a worker of another user is refused by root's services themselves."""
    assert looks[case][-1] == answer


@needs_root
@pytest.mark.parametrize(
    ("case", "note"),
    [
        ("agent", ""),
        ("accelerator", ""),
        pytest.param(
            "device",
            "the model ran as root: only root may use /dev/console",
            marks=pytest.mark.skipif(not Path("/dev/console").exists(), reason="no such device"),
        ),
        ("unread", "the model ran as root: /[^ ]* is closed to other users"),
    ],
)
def test_a_worker_stays_root_where_that_is_wanted_or_needed(
    looks: Looks, case: str, note: str
) -> None:
    """In a container, root can often not read files of others; nor does it ask root's services."""
    (user, *_), notes, connection, child, *_ = looks[case]
    assert (user, connection, child) == (0, errno.EACCES, 0)
    assert re.fullmatch(note, "".join(notes))


@pytest.fixture
def folder() -> Iterator[Path]:
    """Make a folder that everybody may read, with one file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "data").mkdir(mode=0o755)
        (folder / "data" / "file").touch(mode=0o644)
        yield folder


@pytest.mark.parametrize(
    ("name", "mode"), [("", 0o700), ("", 0o744), ("data", 0o711), ("data/file", 0o600)]
)
def test_what_others_cannot_read_is_closed(folder: Path, name: str, mode: int) -> None:
    needs = Needs(programs=(folder / "none",), files=(folder / "data",), devices=(), scratch=folder)
    assert why_closed(needs) == ""
    (folder / name).chmod(mode)
    assert why_closed(needs) == f"{folder / name} is closed to other users"


def test_what_takes_long_to_look_at_may_be_closed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs = Needs(programs=(), files=(folder / "data",), devices=(), scratch=folder)
    above = len({*folder.parents, folder})
    monkeypatch.setattr(own_user, "_MOST_CHECKED", above + 1)
    unseen = folder / "data" / "file"
    assert why_closed(needs).endswith(f"{above + 1} files, and {unseen} may be closed to others")


def test_packages_of_root_alone_need_root(folder: Path) -> None:
    package = folder / "site-packages" / "package"
    package.mkdir(parents=True, mode=0o755)
    check_programs([package.parent])
    package.chmod(0o700)
    with pytest.raises(PermissionError, match=f"{package} is closed to other users"):
        check_programs([package.parent])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to groups")
def test_a_device_is_used_by_its_group_unless_that_is_root_s(folder: Path) -> None:
    file = folder / "data" / "file"
    os.chown(file, 0, 44)
    file.chmod(0o660)
    assert groups_of([folder, file]) == [44]
    os.chown(file, 0, 0)
    with pytest.raises(PermissionError, match=f"only root may use {file}"):
        groups_of([file])
    file.chmod(0o666)
    assert groups_of([file]) == []
