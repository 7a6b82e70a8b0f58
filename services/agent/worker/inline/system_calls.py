"""The filter of system calls for inline Python: every call that is not named is refused.

The kernel runs this classic BPF program (seccomp(2), mode 2) before each system call of the
process and all its threads, none of which can remove it. Allowed are reading open files, memory,
clocks, the process's own limits, opening a file for reading, a signal to itself, and a further
filter. Calls that start a process or thread fail with EAGAIN, every other one with EPERM. A second
filter, once all modules are imported, refuses to ask about files by their paths. A worker itself
has a filter (`refuse_rights`) of what Landlock lets through. Numbers are those of <asm/unistd.h> of
x86_64 and aarch64.
"""

import ctypes
import errno
import os
import platform
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_TSYNC = 1, 1
_SECCOMP_FILTER_FLAG_SPEC_ALLOW = 4
"""Before Linux 5.16 a filter without it turns off the processor's speculative store bypass, and so
slows down the model that is measured. The filter of inline code leaves it off: others wrote that.
"""
_LOAD, _AND, _IS, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_ALLOW, _END, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000
_ALL_BITS = 0xFFFFFFFF
_WRITES = os.O_ACCMODE | os.O_CREAT | os.O_TRUNC
_TYPE_OF_SOCKET = 0xF  # the rest are flags
# UNIX, INET, INET6, and NETLINK, by which the C library asks for addresses and interfaces
_FAMILIES = (1, 2, 10, 16)
# CLONE_NEWTIME, -NEWNS, -NEWCGROUP, -NEWUTS, -NEWIPC, -NEWUSER, -NEWPID, -NEWNET. The first is also
# a bit of the signal with which a child of `clone` ends, where no signal has it.
_NAMESPACES = (
    0x80 | 0x20000 | 0x2000000 | 0x4000000 | 0x8000000 | 0x10000000 | 0x20000000 | 0x40000000
)
_FLAGS_OF_FCNTL = (1, 2, 3)  # F_GETFD, F_SETFD, F_GETFL: no F_SETOWN, which would send signals
_IOCTL_REQUESTS = (0x5401, 0x5421, 0x5450, 0x5451)  # TCGETS, FIONBIO, FIONCLEX, FIOCLEX

# Attributes of files that are not open for writing: FS_IOC_SETFLAGS (of 64 and of 32 bits),
# FS_IOC_FSSETXATTR, FS_IOC_SETVERSION (likewise), FS_IOC_ENABLE_VERITY,
# FS_IOC_SET_ENCRYPTION_POLICY
_CHANGES_BY_IOCTL = (
    0x40086602, 0x40046602, 0x401C5820, 0x40087602, 0x40047602, 0x40806685, 0x800C6613,
)  # fmt: skip

# read write close fstat lseek mmap mprotect munmap brk; rt_sigaction rt_sigprocmask rt_sigreturn
# sigaltstack; pread64 readv writev; faccessat faccessat2 readlinkat newfstatat statx getdents64
# getcwd; pselect6 ppoll; sched_yield sched_getaffinity mremap madvise nanosleep clock_nanosleep;
# getpid gettid getppid getuid getgid geteuid getegid getresuid getresgid getgroups uname; sendto
# recvfrom; exit exit_group restart_syscall; gettimeofday clock_gettime clock_getres times
# getrusage sysinfo getrlimit; futex set_tid_address set_robust_list rseq membarrier getcpu
# getrandom; capget capset lead, which only give up
# fmt: off
_X86_64 = (
    125, 126,
    0, 1, 3, 5, 8, 9, 10, 11, 12, 13, 14, 15, 131, 17, 19, 20, 269, 439, 267, 262, 332, 217, 79,
    270, 271, 24, 204, 25, 28, 35, 230, 39, 186, 110, 102, 104, 107, 108, 118, 120, 115, 63,
    44, 45, 60, 231, 219, 96, 228, 229, 100, 98, 99, 97, 202, 218, 273, 334, 324, 309, 318,
    4, 6, 7, 21, 23, 89, 201,  # stat lstat poll access select readlink time
)
_AARCH64 = (
    90, 91,
    63, 64, 57, 80, 62, 222, 226, 215, 214, 134, 135, 139, 132, 67, 65, 66, 48, 439, 78, 79, 291,
    61, 17, 72, 73, 124, 123, 216, 233, 101, 115, 172, 178, 173, 174, 176, 175, 177, 148, 150,
    158, 160, 206, 207, 93, 94, 128, 169, 113, 114, 153, 165, 179, 163, 98, 96, 99, 293, 283,
    168, 278,
)
# fmt: on


class FilterMissing(OSError):
    """Calls of the system can't be filtered on this machine."""

    def __init__(self, reason: str) -> None:
        """Say why."""
        super().__init__(f"no filter of system calls (seccomp): {reason}")


@dataclass(frozen=True, slots=True)
class _Rule:
    """A call that is allowed where an argument (numbered from 0), masked, has an allowed value."""

    number: int
    argument: int
    allowed: Sequence[int]
    mask: int = _ALL_BITS


@dataclass(frozen=True, slots=True)
class _Machine:
    """The numbers of one architecture."""

    architecture: int
    seccomp: int
    plain: Sequence[int]
    #: openat, and open where it is: number and which argument its flags are
    opening: Sequence[tuple[int, int]]
    #: kill, tkill, tgkill
    signals: Sequence[int]
    fcntl: int
    ioctl: int
    #: socket, socketpair: their first argument is a family
    socket: int
    socketpair: int
    prlimit64: int
    #: clone, fork, vfork
    starting: Sequence[int]
    #: stat lstat access readlink newfstatat readlinkat faccessat statx faccessat2
    asking: Sequence[int]
    #: changes of modes of files, which Landlock allows everywhere: chmod fchmod fchmodat fchmodat2
    modes: Sequence[int]
    #: leaving the group of processes that ends together: setpgid setsid
    groups: Sequence[int]
    #: changes of owners and attributes of files, which Landlock allows too; keys of the kernel;
    #: tracing; what `SYS_ADMIN` allows and no counter of a GPU needs (see `refuse_rights`)
    rights: Sequence[int]
    #: clone unshare: the first argument holds the namespaces that they make
    with_namespaces: Sequence[int]
    #: the first number of another table of calls, if there is one
    foreign: int = 0


_CLONE3 = 435  # everywhere; its flags lie in memory, where no filter sees them
# chown fchown lchown fchownat, setxattr lsetxattr fsetxattr, removexattr lremovexattr
# fremovexattr; add_key request_key keyctl; bpf fanotify_init open_by_handle_at setns quotactl
# swapon swapoff sethostname setdomainname; ptrace. With equal numbers everywhere: setxattrat
# removexattrat file_setattr; io_uring_setup, whose calls no filter sees.
_RIGHTS = (463, 466, 469, 425)
# fmt: off
_MACHINES = {
    "x86_64": _Machine(
        0xC000003E,
        317,
        _X86_64,
        ((257, 2), (2, 1)),
        (62, 200, 234),
        72,
        16,
        41,
        53,
        302,
        (56, 57, 58),
        (4, 6, 21, 89, 262, 267, 269, 332, 439),
        (90, 91, 268, 452),
        (109, 112),
        (
            92, 93, 94, 260, 188, 189, 190, 197, 198, 199,
            *_RIGHTS, 248, 249, 250, 321, 300, 304, 308, 179, 167, 168, 170, 171,
            101,
        ),
        (56, 272),
        foreign=0x40000000,
    ),
    "aarch64": _Machine(
        0xC00000B7,
        277,
        _AARCH64,
        ((56, 2),),
        (129, 130, 131),
        25,
        29,
        198,
        199,
        261,
        (220,),
        (79, 78, 48, 291, 439),
        (52, 53, 452),
        (154, 157),
        (
            54, 55, 5, 6, 7, 14, 15, 16,
            *_RIGHTS, 217, 218, 219, 280, 262, 265, 268, 60, 224, 225, 161, 162,
            117,
        ),
        (220, 97),
    ),
}


# fmt: on


def refuse_rights(*, has_unix_streams: bool = True) -> None:
    """Keep this thread, and all that it starts, from changing files that it may not write.

    Landlock knows nothing of modes, owners and attributes: a user's process may change those of all
    files of the user. Refused as well are keys that the kernel keeps for the user, and what
    `SYS_ADMIN` allows beyond counters of GPUs, such as programs that read the kernel's memory. A
    call that changes a mode succeeds and changes nothing, as programs change those of their copies
    (`shutil.copy`). So does one that leaves the group of processes, by which their host ends them:
    `subprocess` asks for it with `start_new_session`. Without `has_unix_streams` no UNIX socket for
    streams is made but pairs (`socketpair`): Landlock (before version 9) lets a process connect to
    each that its user may ask, such as docker's, which starts programs as root. CUDA starts with
    one for datagrams.

    No namespace is made: in one of users, a process has all capabilities, and so reaches parts of
    the kernel that are root's otherwise. `clone3` is missing; the C library calls `clone` instead.
    Sockets are of common families, and no process is traced. Raises FilterMissing, also where the
    numbers of calls are not known here.
    """
    machine = _machine()
    _give_up_new_rights()
    flags = _SECCOMP_FILTER_FLAG_SPEC_ALLOW
    _install(machine, b"".join(_refusals(machine, has_unix_streams)), flags)


def _refusals(machine: _Machine, has_unix_streams: bool) -> Iterator[bytes]:
    yield _step(_LOAD, 4)
    yield _step(_IS, machine.architecture, 1, 0)
    yield _step(_RETURN, _FAIL | errno.EPERM)
    yield _step(_LOAD, 0)
    if machine.foreign:
        yield _step(_AT_LEAST, machine.foreign, 0, 1)
        yield _step(_RETURN, _FAIL | errno.EPERM)
    for number in (*machine.modes, *machine.groups):
        yield from _answer(number, _FAIL)  # with error 0: the call is left out and succeeds
    for number in machine.rights:
        yield from _answer(number, _FAIL | errno.EPERM)
    yield from _answer(_CLONE3, _FAIL | errno.ENOSYS)
    for number in machine.with_namespaces:
        yield from _checked(_Rule(number, 0, (0,), _NAMESPACES))
    if not has_unix_streams:
        yield from _no_unix_streams(machine)
    for number in (machine.socket, machine.socketpair):
        yield from _checked(_Rule(number, 0, _FAMILIES), errno.EAFNOSUPPORT)
    yield _step(_IS, machine.ioctl, 1, 0)
    yield _step(_RETURN, _ALLOW)
    yield _step(_LOAD, 16 + 8)
    for request in _CHANGES_BY_IOCTL:
        yield from _answer(request, _FAIL | errno.EPERM)
    yield _step(_RETURN, _ALLOW)


def _no_unix_streams(machine: _Machine) -> Iterator[bytes]:
    """Refuse them; at the end the number of the call is loaded again."""
    refused = b"".join(_answer(socket.SOCK_STREAM, _FAIL | errno.EACCES))
    of_unix = b"".join((_step(_LOAD, 16 + 8), _step(_AND, _TYPE_OF_SOCKET), refused))
    body = b"".join(
        (
            _step(_LOAD, 16),
            _step(_IS, socket.AF_UNIX, 0, len(of_unix) // 8),
            of_unix,
            _step(_LOAD, 0),
        )
    )
    yield _step(_IS, machine.socket, 0, len(body) // 8)
    yield body


def filter_fault() -> str:
    """Return why calls can't be filtered here, '' where they can; changes nothing."""
    try:
        machine = _machine()
    except FilterMissing as error:
        return str(error)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(machine.seccomp, _SECCOMP_SET_MODE_FILTER, 0, None)
    # Where there are filters, the kernel reads the program first: there is none at address 0.
    fault = ctypes.get_errno()
    return "" if fault == errno.EFAULT else str(FilterMissing(os.strerror(fault)))


def filter_calls() -> None:
    """Put this process and all its threads under the filter. Raises FilterMissing."""
    machine = _machine()
    _give_up_new_rights()
    _install(machine, b"".join(_program(machine, os.getpid())))


def filter_paths() -> None:
    """Refuse to ask about files by their paths from now on. Raises FilterMissing."""
    machine = _machine()
    refusals = (_answer(number, _FAIL | errno.EPERM) for number in machine.asking)
    steps = (_step(_LOAD, 0), *(b"".join(refusal) for refusal in refusals), _step(_RETURN, _ALLOW))
    _install(machine, b"".join(steps))


def _machine() -> _Machine:
    machine = _MACHINES.get(platform.machine())
    if platform.system() != "Linux" or machine is None:
        raise FilterMissing(f"{platform.system()} on {platform.machine()} has none known here")
    return machine


def _give_up_new_rights() -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise FilterMissing(os.strerror(ctypes.get_errno()))


def _install(machine: _Machine, program: bytes, flags: int = _SECCOMP_FILTER_FLAG_TSYNC) -> None:
    body = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: how many instructions, and where
    program_fields = struct.pack("@HP", len(program) // 8, ctypes.addressof(body))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(machine.seccomp, _SECCOMP_SET_MODE_FILTER, flags, program_fields):
        raise FilterMissing(os.strerror(ctypes.get_errno()))


def _program(machine: _Machine, pid: int) -> Iterator[bytes]:
    """Yield the instructions; at the start of each rule the number of the call is loaded."""
    yield _step(_LOAD, 4)
    yield _step(_IS, machine.architecture, 1, 0)
    yield _step(_RETURN, _END)
    yield _step(_LOAD, 0)
    for number in machine.plain:
        yield from _answer(number, _ALLOW)
    for number in machine.starting:
        yield from _answer(number, _FAIL | errno.EAGAIN)
    yield from _answer(_CLONE3, _FAIL | errno.ENOSYS)
    rules = (
        *(_Rule(number, argument, (0,), _WRITES) for number, argument in machine.opening),
        *(_Rule(number, 0, (pid,)) for number in machine.signals),
        _Rule(machine.fcntl, 1, _FLAGS_OF_FCNTL),
        _Rule(machine.ioctl, 1, _IOCTL_REQUESTS),
        _Rule(machine.prlimit64, 0, (0,)),
        _Rule(machine.seccomp, 1, (_SECCOMP_FILTER_FLAG_TSYNC,)),
    )
    for rule in rules:
        yield from _checked(rule)
    yield _step(_RETURN, _FAIL | errno.EPERM)


def _checked(rule: _Rule, error: int = errno.EPERM) -> Iterator[bytes]:
    """Decide about a call by its argument: allow it, or fail with the `error`."""
    checks = b"".join(b"".join(_answer(value, _ALLOW)) for value in rule.allowed)
    body = b"".join(
        (
            _step(_LOAD, 16 + 8 * rule.argument),
            _step(_AND, rule.mask),
            checks,
            _step(_RETURN, _FAIL | error),
        )
    )
    yield _step(_IS, rule.number, 0, len(body) // 8)
    yield body


def _answer(value: int, verdict: int) -> Iterator[bytes]:
    """Return a verdict where the loaded value is this one; else continue."""
    yield _step(_IS, value, 0, 1)
    yield _step(_RETURN, verdict)


def _step(code: int, operand: int, if_so: int = 0, if_not: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_so, if_not, operand)
