"""The filter of a worker: what Landlock lets through and no model needs (I/O)."""

import errno
import socket
from collections.abc import Collection, Iterator

from services.agent.worker.seccomp.installing import give_up_new_rights, install, this_machine
from services.agent.worker.seccomp.machines import CLONE3, Machine
from services.agent.worker.seccomp.program import (
    ALLOW,
    AND,
    ARCHITECTURE,
    AT_LEAST,
    FAIL,
    IS,
    LOAD,
    NUMBER,
    RETURN,
    Rule,
    answer,
    argument_at,
    checked,
    for_call,
    on_itself,
    step,
    unless_loaded,
    where_argument,
)

_SECCOMP_FILTER_FLAG_SPEC_ALLOW = 4
"""Before Linux 5.16 a filter without it turns off the processor's speculative store bypass, and so
slows down the model that is measured. The filter of inline code leaves it off: others wrote that.
"""
_TYPE_OF_SOCKET = 0xF  # the rest are flags
# UNIX, INET, INET6, and NETLINK, by which the C library asks for addresses and interfaces
_FAMILIES = (1, 2, 10, 16)
_INTERNET_FAMILIES = (2, 10)
# The default of the type, ICMP, TCP, UDP, ICMPv6. Landlock's rule for ports is about TCP alone, and
# plain clients reach a port of MPTCP (262) or SMC (256) as well.
_PROTOCOLS = (0, 1, 6, 17, 58)
# TCP_ULP makes another protocol, such as SMC, of a socket of TCP. By IP_LOCAL_PORT_RANGE a socket
# that asks for any port gets a chosen one.
_REFUSED_OPTIONS = ((6, 31), (0, 51))
_EVERY_PROCESS = 0xFFFFFFFF
_PRIO_PROCESS, _IOPRIO_WHO_PROCESS = 0, 1
# CLONE_NEWTIME, -NEWNS, -NEWCGROUP, -NEWUTS, -NEWIPC, -NEWUSER, -NEWPID, -NEWNET. The first is also
# a bit of the signal with which a child of `clone` ends, where no signal has it.
_NAMESPACES = (
    0x80 | 0x20000 | 0x2000000 | 0x4000000 | 0x8000000 | 0x10000000 | 0x20000000 | 0x40000000
)
# With it a child is one of the agent's, which waits for none but its own.
_CLONE_PARENT = 0x8000
_F_SETLEASE = 1024
"""Who holds a lease of a file keeps others from writing it for the better part of a minute."""

# Of file systems, by the letters of their requests: all, 'f' ext and others, 'v', btrfs, f2fs,
# bcachefs, ceph. A file that is not open for writing suffices to change its attributes, and with
# `SYS_ADMIN` to freeze or shut down the whole disk (FIFREEZE, FS_IOC_SHUTDOWN). No device has one.
_FILE_SYSTEMS = (0x5800, 0x6600, 0x7600, 0x9400, 0xF500, 0xBC00, 0x9700)
_LETTER = 0xFF00
# FS_IOC_GETFLAGS (of 64 and of 32 bits), FS_IOC_FSGETXATTR, FS_IOC_GETVERSION, FS_IOC_FIEMAP; and
# FICLONE, FICLONERANGE, which programs copy with
_HARMLESS_OF_THEM = (
    0x80086601, 0x80046601, 0x801C581F, 0x80087601, 0xC020660B, 0x40049409, 0x4020940D,
)  # fmt: skip
_FAT_IOCTL_SET_ATTRIBUTES = 0x40047211


def refuse_rights(*, refused_unix: Collection[int] = ()) -> None:
    """Keep this thread, and all that it starts, from changing files that it may not write.

    Landlock knows nothing of modes, owners and attributes: a user's process may change those of all
    files of the user. Refused as well are what the kernel keeps for the user (keys, and shared
    memory, queues and semaphores of System V), and what `SYS_ADMIN` allows beyond counters of GPUs,
    such as programs that read the kernel's memory. A call that changes a mode succeeds and changes
    nothing, as programs change those of their copies (`shutil.copy`). So does one that leaves the
    group of processes, by which their host ends them: `subprocess` asks for it with
    `start_new_session`. UNIX sockets of the kinds `refused_unix` (`SOCK_STREAM`) are made in pairs
    alone (`socketpair`): as Landlock is used here, a process may connect to each that its user may
    ask, such as docker's, which starts programs as root.

    No namespace is made: in one of users, a process has all capabilities, and so reaches parts of
    the kernel that are root's otherwise. `clone3` is missing; the C library calls `clone` instead.
    Sockets are of common families and protocols, no process is traced, and none gives other
    processes of its user limits or priorities, has a lease of a file, or starts a process as its
    parent's. Counters of the kernel are of single processes. Which CPUs processes run on stays open
    to it: libraries name their threads by number for that, and no filter knows whose a number is.
    Raises FilterMissing, also where the numbers of calls are not known here.
    """
    machine = this_machine()
    give_up_new_rights()
    flags = _SECCOMP_FILTER_FLAG_SPEC_ALLOW
    install(machine, b"".join(_refusals(machine, refused_unix)), flags)


def _refusals(machine: Machine, refused_unix: Collection[int]) -> Iterator[bytes]:
    yield step(LOAD, ARCHITECTURE)
    yield step(IS, machine.architecture, 1, 0)
    yield step(RETURN, FAIL | errno.EPERM)
    yield step(LOAD, NUMBER)
    if machine.foreign:
        yield step(AT_LEAST, machine.foreign, 0, 1)
        yield step(RETURN, FAIL | errno.EPERM)
    for number in (*machine.modes, *machine.groups):
        yield from answer(number, FAIL)  # with error 0: the call is left out and succeeds
    for number in machine.rights:
        yield from answer(number, FAIL | errno.EPERM)
    yield from answer(CLONE3, FAIL | errno.ENOSYS)
    for number in machine.with_namespaces:
        yield from checked(Rule(number, 0, (0,), _NAMESPACES | _CLONE_PARENT))
    yield from _no_unix_sockets(machine, refused_unix)
    yield from _common_protocols(machine)
    for number in (machine.socket, machine.socketpair):
        yield from checked(Rule(number, 0, _FAMILIES), errno.EAFNOSUPPORT)
    for number in (machine.prlimit64, *machine.scheduling):
        yield from checked(Rule(number, 0, (0,)))
    yield from on_itself(machine.setpriority, _PRIO_PROCESS)
    yield from on_itself(machine.ioprio_set, _IOPRIO_WHO_PROCESS)
    yield from _no_way_around_ports(machine)
    of_all = b"".join(answer(_EVERY_PROCESS, FAIL | errno.EPERM))
    yield from for_call(machine.perf_event_open, step(LOAD, argument_at(1)) + of_all)
    refused = b"".join(answer(_F_SETLEASE, FAIL | errno.EPERM))
    yield from for_call(machine.fcntl, step(LOAD, argument_at(1)) + refused)
    yield step(IS, machine.ioctl, 1, 0)
    yield step(RETURN, ALLOW)
    yield step(LOAD, argument_at(1))
    yield from answer(_FAT_IOCTL_SET_ATTRIBUTES, FAIL | errno.EPERM)
    for request in _HARMLESS_OF_THEM:
        yield from answer(request, ALLOW)
    yield step(AND, _LETTER)
    for letter in _FILE_SYSTEMS:
        yield from answer(letter, FAIL | errno.EPERM)
    yield step(RETURN, ALLOW)


def _no_unix_sockets(machine: Machine, kinds: Collection[int]) -> Iterator[bytes]:
    refused = b"".join(b"".join(answer(kind, FAIL | errno.EACCES)) for kind in kinds)
    of_unix = b"".join((step(LOAD, argument_at(1)), step(AND, _TYPE_OF_SOCKET), refused))
    yield from for_call(machine.socket, where_argument(0, socket.AF_UNIX, of_unix))


def _common_protocols(machine: Machine) -> Iterator[bytes]:
    """Refuse internet sockets of other kinds than streams and datagrams, and rare protocols."""
    fail = FAIL | errno.EPROTONOSUPPORT
    kinds = (socket.SOCK_STREAM, socket.SOCK_DGRAM)
    of_internet = b"".join(
        (
            step(LOAD, argument_at(1)),
            step(AND, _TYPE_OF_SOCKET),
            *unless_loaded(kinds, fail),
            step(LOAD, argument_at(2)),
            *unless_loaded(_PROTOCOLS, fail),
        )
    )
    for family in _INTERNET_FAMILIES:
        yield from for_call(machine.socket, where_argument(0, family, of_internet))


def _no_way_around_ports(machine: Machine) -> Iterator[bytes]:
    """Refuse options of sockets that lead around Landlock's rule for ports."""
    for level, option in _REFUSED_OPTIONS:
        refusal = answer(option, FAIL | errno.ENOPROTOOPT)
        refused = b"".join((step(LOAD, argument_at(2)), *refusal))
        yield from for_call(machine.setsockopt, where_argument(1, level, refused))
