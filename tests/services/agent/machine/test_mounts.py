"""Processes of root in the sandbox of a worker, where the kernel has no Landlock."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from services.agent.machine.landlock import landlock_version
from services.agent.worker.sandbox.sandbox import _DEVICES
from tests.services.agent.builders import MANIFESTS
from tests.services.agent.mounting import MAY_MOUNT, needs_mounts

MESSAGE = """
import os, sys
from pathlib import Path
from services.agent.link.allowances import DEFAULT_ALLOWANCES
from services.agent.link.messages import PerformOrder
from services.agent.machine.roofline.ceilings import NO_ROOF
from services.agent.worker.sandbox import sandbox
from tests.services.agent.builders import MANIFESTS, an_order

message = PerformOrder(an_order(), MANIFESTS, {}, DEFAULT_ALLOWANCES, NO_ROOF)
"""
NO_LANDLOCK = "sandbox.landlock_version = lambda: 0\n"
CONFINE = "sandbox.enter_sandbox(message, Path(sys.argv[1]))\n"
ENTER = MESSAGE + NO_LANDLOCK + CONFINE


OWN_MOUNTS = ["unshare", "--mount"] if MAY_MOUNT else []
"""Begins each command: a sandbox with a fault must not hide the machine's own folders."""


def lines_of(code: str, *arguments: object) -> list[str]:
    """Return the lines that a process of some code prints."""
    ended = subprocess.run(
        [*OWN_MOUNTS, sys.executable, "-c", code, *map(str, arguments)],
        cwd=MANIFESTS.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    return ended.stdout.splitlines()


NEIGHBOUR = """
(Path(sys.argv[1]) / "answer").write_text("42")
print("ready", flush=True)
sys.stdin.read()
"""
VISIT = """
def outcome(path):
    try:
        return path.read_bytes()
    except OSError as error:
        return type(error).__name__
place = Path("/proc", sys.argv[2])
print(outcome(place / "environ"), outcome(place / "maps"), outcome(place / "root" / sys.argv[3]))
"""


@needs_mounts
def test_a_process_in_the_sandbox_reaches_nothing_of_its_neighbour(tmp_path: Path) -> None:
    """Both are of root and have equal capabilities: the kernel would let them trace each other."""
    scratches = tmp_path / "a", tmp_path / "b"
    for scratch in scratches:
        scratch.mkdir()
    with subprocess.Popen(
        [*OWN_MOUNTS, sys.executable, "-c", ENTER + NEIGHBOUR, str(scratches[1])],
        cwd=MANIFESTS.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as neighbour:
        assert neighbour.stdout is not None
        assert neighbour.stdout.readline() == b"ready\n"
        answer = str(scratches[1] / "answer").lstrip("/")
        lines = lines_of(ENTER + VISIT, scratches[0], neighbour.pid, answer)
        neighbour.communicate()
    assert lines == ["PermissionError PermissionError PermissionError"]


ENVIRONMENT = """
try:
    print(Path("/proc", str(os.getppid()), "environ").read_bytes())
except OSError as error:
    print(type(error).__name__)
print(os.getuid() == os.stat(sys.argv[1]).st_uid, os.getuid() == os.stat("/").st_uid)
"""


@pytest.mark.parametrize(
    "entering",
    [
        pytest.param(ENTER, marks=needs_mounts, id="mounts"),
        pytest.param(
            MESSAGE + CONFINE,
            marks=pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock"),
            id="landlock",
        ),
    ],
)
def test_a_process_in_the_sandbox_is_another_user_and_reads_no_environment_of_its_agent(
    tmp_path: Path, entering: str
) -> None:
    """CAP_PERFMON would let it, from Linux 6.14 on."""
    assert lines_of(entering + ENVIRONMENT, tmp_path) == ["PermissionError", "True False"]


HALFWAY = """
from services.agent.machine import mounts
mount = mounts._mount
def refused(source, place, flags, kind=None, data=None):
    if str(place) == "/home":
        raise PermissionError(1, "Operation not permitted", str(place))
    mount(source, place, flags, kind, data)
mounts._mount = refused
try:
    sandbox.enter_sandbox(message, Path(sys.argv[1]))
except OSError as error:
    print(error)
"""


@needs_mounts
def test_a_sandbox_that_hides_only_a_part_is_an_error(tmp_path: Path) -> None:
    lines = lines_of(MESSAGE + NO_LANDLOCK + HALFWAY, tmp_path)
    assert lines == ["[Errno 1] Operation not permitted: '/home'"]


UNPRIVILEGED = """
from services.agent.machine.landlock import drop_capabilities
drop_capabilities(())
sandbox.enter_sandbox(message, Path(sys.argv[1]))
print("open")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_where_root_may_not_mount_a_worker_starts_without_a_sandbox(tmp_path: Path) -> None:
    assert lines_of(MESSAGE + NO_LANDLOCK + UNPRIVILEGED, tmp_path) == ["open"]


PREPARE = """
import sys
from pathlib import Path
from services.agent.machine.landlock import drop_capabilities
from services.agent.worker.preparation.order import PreparationOrder
from services.agent.worker.preparation.processes import PreparingProcesses
from tests.services.agent.builders import MANIFESTS, a_subject

drop_capabilities(())
subject, scratch = a_subject(), Path(sys.argv[1])
order = PreparationOrder(subject.model, subject.dataset, MANIFESTS, {}, scratch)
server = PreparingProcesses.start(order)
server.await_ready()
try:
    Path(f"/proc/{server._process.pid}/environ").read_bytes()
except OSError as error:
    print(type(error).__name__)
server.close()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_process_that_prepares_samples_refuses_tracers_too(tmp_path: Path) -> None:
    assert lines_of(PREPARE, tmp_path) == ["PermissionError"]


DEVICES = """
print(*os.listdir("/dev"))
print(len(os.urandom(1)), len(Path("/dev/zero").open("rb").read(1)))
print(Path("/dev/null").write_bytes(b"x"))
"""


@needs_mounts
def test_a_process_in_the_sandbox_has_no_disk(tmp_path: Path) -> None:
    """A disk holds every file, and root may open it."""
    shown, *used = lines_of(ENTER + DEVICES, tmp_path)
    expected = {path.name for pattern in _DEVICES for path in Path("/dev").glob(pattern)}
    assert {*shown.split()} == expected
    assert used == ["1 1", "1"]
