"""Memory without a name, which processes share by its descriptor (I/O).

The 64 MB that containers have in /dev/shm are no limit for it, and it is gone with the last process
that maps it, however that process ends. No process can make it smaller: the kernel ends any that
reads what is mapped and no longer there (SIGBUS).
"""

import errno
import fcntl
import os
from contextlib import ExitStack

from services.agent.machine.quotas import available_memory_bytes

_MOST_SHARE = 0.5
"""Of the memory that is available."""
_MFD_NOEXEC_SEAL = 8
"""Linux 6.3; some machines allow no other memory (`vm.memfd_noexec=2`)."""


def anonymous_memory(name: str, size_bytes: int, reserved_bytes: int) -> int:
    """Return a descriptor of `size_bytes` of zeros, the first `reserved_bytes` of them reserved.

    The kernel shows it by its `name`. Raises OSError where there is not enough, which would else
    end a process: the one that writes, or any other, because the kernel reserves until nothing is
    left.
    """
    if not hasattr(os, "memfd_create"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    available_bytes = available_memory_bytes()
    if available_bytes and reserved_bytes > _MOST_SHARE * available_bytes:
        raise OSError(errno.ENOMEM, f"{reserved_bytes} bytes are not available")
    with ExitStack() as undo:
        fd = _new_memory(name)
        undo.callback(os.close, fd)
        os.ftruncate(fd, size_bytes)
        size_stays = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, size_stays)
        os.posix_fallocate(fd, 0, reserved_bytes)
        undo.pop_all()
    return fd


def _new_memory(name: str) -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create(name, flags | _MFD_NOEXEC_SEAL)
    except OSError as error:
        if error.errno != errno.EINVAL:  # as an older kernel answers
            raise
    return os.memfd_create(name, flags)
