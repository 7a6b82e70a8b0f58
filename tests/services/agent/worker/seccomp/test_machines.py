"""The numbers of the filters' calls are those of the kernel, on machines that no test runs on too.

`system_calls.txt` beside this test has the kernel's numbers, by the names of calls.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from services.agent.worker.seccomp.machines import CLONE3, MACHINES, Machine

FACTS = Path(__file__).with_name("system_calls.txt")
ALLOWED = """
    capget capset read write close fstat lseek mmap mprotect munmap brk rt_sigaction rt_sigprocmask
    rt_sigreturn sigaltstack pread64 readv writev faccessat faccessat2 readlinkat newfstatat statx
    getdents64 getcwd pselect6 ppoll sched_yield sched_getaffinity mremap madvise nanosleep
    clock_nanosleep getpid gettid getppid getuid getgid geteuid getegid getresuid getresgid
    getgroups uname sendto recvfrom exit exit_group restart_syscall gettimeofday clock_gettime
    clock_getres times getrusage sysinfo getrlimit futex set_tid_address set_robust_list rseq
    membarrier getcpu getrandom stat lstat poll access select readlink time
"""
CALLS: Mapping[str, str] = {
    "seccomp": "seccomp",
    "plain": ALLOWED,
    "opening": "openat open",
    "signals": "kill tkill tgkill",
    "fcntl": "fcntl",
    "ioctl": "ioctl",
    "socket": "socket",
    "socketpair": "socketpair",
    "setsockopt": "setsockopt",
    "prlimit64": "prlimit64",
    "scheduling": "sched_setparam sched_setscheduler sched_setattr",
    "setpriority": "setpriority",
    "ioprio_set": "ioprio_set",
    "perf_event_open": "perf_event_open",
    "starting": "clone fork vfork",
    "asking": "stat lstat access readlink newfstatat readlinkat faccessat statx faccessat2",
    "modes": "chmod fchmod fchmodat fchmodat2",
    "groups": "setpgid setsid",
    "rights": """
        chown fchown lchown fchownat setxattr lsetxattr fsetxattr removexattr lremovexattr
        fremovexattr setxattrat removexattrat file_setattr io_uring_setup add_key request_key
        keyctl bpf fanotify_init open_by_handle_at setns quotactl swapon swapoff sethostname
        setdomainname ptrace shmget shmat shmctl shmdt semget semop semctl semtimedop msgget msgsnd
        msgrcv msgctl mount umount2 pivot_root acct syslog open_tree move_mount fsopen fsconfig
        fsmount fspick mount_setattr open_tree_attr quotactl_fd
    """,
    "with_namespaces": "clone unshare",
}
"""The names of the calls in each field of a machine's table; not every machine has all."""
NAMES = ("x86_64", "aarch64")


def numbers_of(machine: str) -> dict[str, int]:
    """Return the kernel's numbers of calls on a `machine`, by name."""
    lines = (line.split() for line in FACTS.read_text().splitlines() if line[:1] not in ("#", ""))
    heading, *rows = lines
    at = heading.index(machine)
    return {row[0]: int(row[at]) for row in rows if row[at] != "-"}


@pytest.mark.parametrize("machine", NAMES)
@pytest.mark.parametrize("field", CALLS)
def test_a_table_has_the_kernel_s_numbers(machine: str, field: str) -> None:
    found = getattr(MACHINES[machine], field)
    if isinstance(found, int):
        found = (found,)
    if field == "opening":
        found = tuple(number for number, _ in found)
    numbers = numbers_of(machine)
    expected = [numbers[name] for name in CALLS[field].split() if name in numbers]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(("machine", "elf"), [("x86_64", 62), ("aarch64", 183)])
def test_a_table_is_for_its_architecture(machine: str, elf: int) -> None:
    """Its number in ELF files (`linux/elf-em.h`), with bits for 64 bits and little endian."""
    assert MACHINES[machine].architecture == 0xC0000000 | elf


@pytest.mark.parametrize("machine", NAMES)
def test_clone3_has_one_number_everywhere(machine: str) -> None:
    assert numbers_of(machine)["clone3"] == CLONE3


def test_no_field_of_numbers_is_left_out() -> None:
    others = {"architecture", "foreign"}
    assert {*Machine.__dataclass_fields__} == {*CALLS} | others
    assert {*MACHINES} == {*NAMES}
