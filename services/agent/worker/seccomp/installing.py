"""Puts this process, or this thread, under a filter of system calls (I/O)."""

import ctypes
import errno
import os
import platform
import struct

from services.agent.worker.seccomp.machines import MACHINES, Machine

_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_SET_MODE_FILTER = 1
ALL_THREADS = 1
"""SECCOMP_FILTER_FLAG_TSYNC."""


class FilterMissing(OSError):
    """Calls of the system can't be filtered on this machine."""

    def __init__(self, reason: str) -> None:
        """Say why."""
        super().__init__(f"no filter of system calls (seccomp): {reason}")


def filter_fault() -> str:
    """Return why calls can't be filtered here, '' where they can; changes nothing."""
    try:
        machine = this_machine()
    except FilterMissing as error:
        return str(error)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(machine.seccomp, _SECCOMP_SET_MODE_FILTER, 0, None)
    # Where there are filters, the kernel reads the program first: there is none at address 0.
    fault = ctypes.get_errno()
    return "" if fault == errno.EFAULT else str(FilterMissing(os.strerror(fault)))


def this_machine() -> Machine:
    """Return the numbers of this machine. Raises FilterMissing where they are not known."""
    machine = MACHINES.get(platform.machine())
    if platform.system() != "Linux" or machine is None:
        raise FilterMissing(f"{platform.system()} on {platform.machine()} has none known here")
    return machine


def give_up_new_rights() -> None:
    """Have no program that this process starts raise its rights. Raises FilterMissing."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise FilterMissing(os.strerror(ctypes.get_errno()))


def install(machine: Machine, program: bytes, flags: int = ALL_THREADS) -> None:
    """Give the kernel a `program` for this `machine`, with `flags`. Raises FilterMissing."""
    body = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: how many instructions, and where
    program_fields = struct.pack("@HP", len(program) // 8, ctypes.addressof(body))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(machine.seccomp, _SECCOMP_SET_MODE_FILTER, flags, program_fields):
        raise FilterMissing(os.strerror(ctypes.get_errno()))
