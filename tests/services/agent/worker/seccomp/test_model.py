"""What the filter of a worker's system calls refuses, each tried in a process of its own."""

import subprocess
import sys

import pytest

from tests.seccomp import needs_filter

ERRORS = """
import errno, os, resource, socket, sys
from services.agent.worker.seccomp.model import refuse_rights

def error_of(action, *arguments):
    try:
        action(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "ok"
"""
PROTOCOLS = """
refuse_rights(refused_unix=%s)
INET, INET6 = socket.AF_INET, socket.AF_INET6
STREAM, DATAGRAM, PACKETS, DCCP_TYPE = 1, 2, 5, 6
ICMP, TCP, UDP, DCCP, ICMPV6, SCTP, UDPLITE, SMC, MPTCP = 1, 6, 17, 33, 58, 132, 136, 256, 262
plain = [(STREAM, 0), (STREAM, TCP), (DATAGRAM, 0), (DATAGRAM, UDP)]
made = [error_of(socket.socket, family, *kind) for family in (INET, INET6) for kind in plain]
made += [error_of(socket.socket, INET, STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)]
print({*made})
# The kernel decides whether this group may ping, not the filter.
print(error_of(socket.socket, INET, DATAGRAM, ICMP) in ("ok", "EACCES"))
rare = [(STREAM, MPTCP), (STREAM | socket.SOCK_CLOEXEC, MPTCP), (STREAM, SCTP), (STREAM, SMC)]
rare += [(PACKETS, 0), (PACKETS, SCTP), (DCCP_TYPE, DCCP), (DATAGRAM, UDPLITE)]
print({error_of(socket.socket, family, *kind) for family in (INET, INET6) for kind in rare})
tcp = socket.socket()
TCP_ULP = 31
print(error_of(tcp.setsockopt, TCP, TCP_ULP, b"smc"), error_of(tcp.setsockopt, TCP, 1, 1))
print(error_of(tcp.setsockopt, socket.SOL_SOCKET, socket.SO_REUSEADDR, 1))
SOL_IP, IP_LOCAL_PORT_RANGE, IP_TTL = 0, 51, 2
chosen = 4222 | 4222 << 16
print(error_of(tcp.setsockopt, SOL_IP, IP_LOCAL_PORT_RANGE, chosen))
print(error_of(tcp.setsockopt, SOL_IP, IP_TTL, 9))
tcp.bind(("127.0.0.1", 0))
tcp.listen()
"""
OTHERS = """
import ctypes, platform, signal, time

number = {
    "x86_64": {"ioprio_set": 251, "sched_setattr": 314},
    "aarch64": {"ioprio_set": 30, "sched_setattr": 274},
}[platform.machine()]
libc = ctypes.CDLL(None, use_errno=True)

def call(name, *arguments):
    if libc.syscall(number[name], *arguments):
        raise OSError(ctypes.get_errno(), name)

other = os.fork()
if other == 0:
    time.sleep(60)
    os._exit(0)
refuse_rights()
limit = resource.getrlimit(resource.RLIMIT_NOFILE)
idle, normal = os.sched_param(0), os.SCHED_OTHER
PROCESS, GROUP, USER = os.PRIO_PROCESS, os.PRIO_PGRP, os.PRIO_USER
IO_PROCESS, IO_GROUP, IO_USER, IDLE_CLASS = 1, 2, 3, 3 << 13
attributes = (ctypes.c_uint32 * 12)(48, 5)

def on(process):
    yield error_of(resource.prlimit, process, resource.RLIMIT_NOFILE, limit)
    yield error_of(os.sched_setscheduler, process, normal, idle)
    yield error_of(os.sched_setparam, process, idle)
    yield error_of(os.setpriority, PROCESS, process, 0)
    yield error_of(call, "ioprio_set", IO_PROCESS, process, IDLE_CLASS)
    yield error_of(call, "sched_setattr", process, attributes, 0)

print({*on(other)}, {*on(0)})
print(error_of(os.setpriority, GROUP, 0, 19), error_of(os.setpriority, USER, 0, 19))
groups = (IO_GROUP, IO_USER)
print({error_of(call, "ioprio_set", group, 0, IDLE_CLASS) for group in groups})
print(error_of(os.nice, 1), error_of(resource.setrlimit, resource.RLIMIT_NOFILE, limit))
os.kill(other, signal.SIGKILL)
"""
SYSTEM_V = """
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
CREATED, REMOVED = 0o1600, 0
memory = libc.shmget(0, 4096, CREATED)
assert memory >= 0
if os.fork() == 0:
    refuse_rights()
    libc.shmat.restype = ctypes.c_void_p
    answers = []
    for ask, wanted in (
        (lambda: libc.shmget(0, 4096, CREATED), -1),
        (lambda: libc.shmat(memory, None, 0), 2**64 - 1),
        (lambda: libc.shmctl(memory, REMOVED, None), -1),
        (lambda: libc.semget(0, 1, CREATED), -1),
        (lambda: libc.semctl(0, 0, REMOVED), -1),
        (lambda: libc.msgget(0, CREATED), -1),
        (lambda: libc.msgctl(0, REMOVED, None), -1),
    ):
        ctypes.set_errno(0)
        answers.append((ask() == wanted, errno.errorcode.get(ctypes.get_errno())))
    print({*answers}, flush=True)
    os._exit(0)
os.wait()
print(libc.shmctl(memory, REMOVED, None))
"""


def printed(script: str) -> list[str]:
    """Return the lines that a `script` prints in a process of its own."""
    command = [sys.executable, "-c", ERRORS + script]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


@needs_filter
@pytest.mark.parametrize("refused_unix", ["(1, 5)", "()"])
def test_a_worker_makes_internet_sockets_of_common_protocols_alone(refused_unix: str) -> None:
    """Landlock's rule for ports is about TCP: a port of MPTCP would serve the broker's clients."""
    assert printed(PROTOCOLS % refused_unix) == [
        "{'ok'}",
        "True",
        "{'EPROTONOSUPPORT'}",
        "ENOPROTOOPT ok",
        "ok",
        "ENOPROTOOPT",
        "ok",
    ]


@needs_filter
@pytest.mark.parametrize(
    ("refused_unix", "errors"),
    [("(1, 5)", ["EACCES", "ok", "EACCES"]), ("(1,)", ["EACCES", "ok", "ok"]), ("()", ["ok"] * 3)],
)
def test_a_worker_makes_no_unix_socket_of_a_refused_kind(
    refused_unix: str, errors: list[str]
) -> None:
    made = "[error_of(socket.socket, socket.AF_UNIX, kind) for kind in (1, 2, 5)]"
    assert printed(f"refuse_rights(refused_unix={refused_unix})\nprint({made})") == [str(errors)]


@needs_filter
def test_a_worker_changes_no_limit_or_priority_of_another_process() -> None:
    """By a limit of CPU time it would end every process of its user, the broker included."""
    assert printed(OTHERS) == ["{'EPERM'} {'ok'}", "EPERM EPERM", "{'EPERM'}", "ok ok"]


@needs_filter
def test_a_worker_reaches_no_memory_queue_or_semaphore_of_its_user() -> None:
    """Landlock knows nothing of those of System V."""
    assert printed(SYSTEM_V) == ["{(True, 'EPERM')}", "0"]


OF_PARENT = """
import ctypes, fcntl, platform, tempfile

libc = ctypes.CDLL(None, use_errno=True)
clone = {"x86_64": 56, "aarch64": 220}[platform.machine()]
CLONE_PARENT, SIGCHLD = 0x8000, 17
file = tempfile.TemporaryFile()
reading = os.open(f"/proc/self/fd/{file.fileno()}", os.O_RDONLY)
file.close()
refuse_rights()
child = libc.syscall(clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0)
print(child, errno.errorcode[ctypes.get_errno()])
control = fcntl.fcntl
print(error_of(control, reading, fcntl.F_SETLEASE, fcntl.F_RDLCK))
print(error_of(control, reading, fcntl.F_GETFD), error_of(control, reading, fcntl.F_GETLEASE))
"""


@needs_filter
def test_a_worker_leaves_its_agent_no_children_and_its_user_no_leases() -> None:
    """Nobody waits for those children: they would take every process id of the machine."""
    assert printed(OF_PARENT) == ["-1 EPERM", "EPERM", "ok ok"]


OF_COUNTERS = """
import ctypes, platform, struct

libc = ctypes.CDLL(None, use_errno=True)
perf_event_open = {"x86_64": 298, "aarch64": 241}[platform.machine()]
SOFTWARE, CPU_CLOCK = 1, 0
attributes = ctypes.create_string_buffer(struct.pack("=IIQ", SOFTWARE, 120, CPU_CLOCK), 120)

def opened(process, cpu):
    descriptor = libc.syscall(perf_event_open, attributes, process, cpu, -1, 0)
    return "ok" if descriptor >= 0 else errno.errorcode[ctypes.get_errno()]

own = [opened(0, -1), opened(os.getpid(), -1)]
refuse_rights()
print(opened(-1, 0), [opened(0, -1), opened(os.getpid(), -1)] == own)
"""


@needs_filter
def test_a_worker_counts_no_events_of_every_process() -> None:
    """With `SYS_ADMIN`, which one of root keeps on a GPU, it would sample the stacks of all."""
    (line,) = printed(OF_COUNTERS)
    assert line == "EPERM True"


OF_DISKS = """
import ctypes, fcntl, platform, tempfile

FREEZE, THAW, TRIM, SHUTDOWN = 0xC0045877, 0xC0045878, 0xC0185879, 0x8004587D
SEARCH_OF_BTRFS, RESIZE_OF_EXT4, GOING_DOWN_OF_F2FS = 0xD0009411, 0x40086610, 0xF50D
GET_FLAGS, GET_ATTRIBUTES, CLONE, READABLE_BYTES = 0x80086601, 0x801C581F, 0x40049409, 0x541B
numbers = {
    "x86_64": {"mount": 165, "umount2": 166, "pivot_root": 155, "acct": 163, "syslog": 103},
    "aarch64": {"mount": 40, "umount2": 39, "pivot_root": 41, "acct": 89, "syslog": 116},
}[platform.machine()]
numbers |= {"open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432}
numbers |= {"fspick": 433, "mount_setattr": 442, "quotactl_fd": 443, "open_tree_attr": 467}
libc = ctypes.CDLL(None, use_errno=True)

def asked(descriptor, request):
    return error_of(fcntl.ioctl, descriptor, request, bytes(64))

def called(number):
    # A program that is not there, so that nothing happens where the filter lets it pass.
    return libc.syscall(number, -1, -1, -1, -1, -1), errno.errorcode[ctypes.get_errno()]

folder = os.open("/proc", os.O_RDONLY)
file = tempfile.TemporaryFile()
harmless = (GET_FLAGS, GET_ATTRIBUTES, CLONE, READABLE_BYTES)
before = [asked(file, request) for request in harmless]
refuse_rights()
print({asked(folder, request) for request in (FREEZE, THAW, TRIM, SHUTDOWN)})
print({asked(folder, request) for request in (SEARCH_OF_BTRFS, RESIZE_OF_EXT4, GOING_DOWN_OF_F2FS)})
print([asked(file, request) for request in harmless] == before, before[-1])
print({called(number) for number in numbers.values()})
"""


@needs_filter
def test_a_worker_stops_no_disk_and_mounts_none() -> None:
    """One of root keeps `SYS_ADMIN` on a GPU, with which any folder's disk can be frozen."""
    refused = "{'EPERM'}"
    assert printed(OF_DISKS) == [refused, refused, "True ok", "{(-1, 'EPERM')}"]
