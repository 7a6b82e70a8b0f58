"""The filter of system calls for inline Python: every call that is not named is refused.

The kernel runs this classic BPF program (seccomp(2), mode 2) before each system call of the
process and all its threads, none of which can remove it. Allowed are reading open files, memory,
clocks, the process's own limits, opening a file for reading, a signal to itself, and a further
filter. Calls that start a process or thread fail with EAGAIN, every other one with EPERM. A second
filter, once all modules are imported, refuses to ask about files by their paths.
"""

import errno
import os
from collections.abc import Iterator

from services.agent.worker.seccomp.installing import (
    ALL_THREADS,
    give_up_new_rights,
    install,
    this_machine,
)
from services.agent.worker.seccomp.machines import CLONE3, Machine
from services.agent.worker.seccomp.program import (
    ALLOW,
    ARCHITECTURE,
    END,
    FAIL,
    IS,
    LOAD,
    NUMBER,
    RETURN,
    Rule,
    answer,
    checked,
    step,
)

_WRITES = os.O_ACCMODE | os.O_CREAT | os.O_TRUNC
_FLAGS_OF_FCNTL = (1, 2, 3)  # F_GETFD, F_SETFD, F_GETFL: no F_SETOWN, which would send signals
_IOCTL_REQUESTS = (0x5401, 0x5421, 0x5450, 0x5451)  # TCGETS, FIONBIO, FIONCLEX, FIOCLEX


def filter_calls() -> None:
    """Put this process and all its threads under the filter. Raises FilterMissing."""
    machine = this_machine()
    give_up_new_rights()
    install(machine, b"".join(_program(machine, os.getpid())))


def filter_paths() -> None:
    """Refuse to ask about files by their paths from now on. Raises FilterMissing."""
    machine = this_machine()
    refusals = (answer(number, FAIL | errno.EPERM) for number in machine.asking)
    steps = (step(LOAD, NUMBER), *(b"".join(refusal) for refusal in refusals), step(RETURN, ALLOW))
    install(machine, b"".join(steps))


def _program(machine: Machine, pid: int) -> Iterator[bytes]:
    """Yield the instructions; at the start of each rule the number of the call is loaded."""
    yield step(LOAD, ARCHITECTURE)
    yield step(IS, machine.architecture, 1, 0)
    yield step(RETURN, END)
    yield step(LOAD, NUMBER)
    for number in machine.plain:
        yield from answer(number, ALLOW)
    for number in machine.starting:
        yield from answer(number, FAIL | errno.EAGAIN)
    yield from answer(CLONE3, FAIL | errno.ENOSYS)
    rules = (
        *(Rule(number, argument, (0,), _WRITES) for number, argument in machine.opening),
        *(Rule(number, 0, (pid,)) for number in machine.signals),
        Rule(machine.fcntl, 1, _FLAGS_OF_FCNTL),
        Rule(machine.ioctl, 1, _IOCTL_REQUESTS),
        Rule(machine.prlimit64, 0, (0,)),
        Rule(machine.seccomp, 1, (ALL_THREADS,)),
    )
    for rule in rules:
        yield from checked(rule)
    yield step(RETURN, FAIL | errno.EPERM)
