"""The worker process within a container: its host hands everything over through a socket.

    python -P -m services.agent.worker.contained SPOOL_BYTES SCRATCH

The socket lies in SCRATCH. Descriptors of ring and spool come through it; then it is the channel.
"""

import os
import socket
import sys

from services.agent.link.channel import SOCKET
from services.agent.worker import worker


def main(arguments: list[str]) -> None:
    """Take the descriptors from the host, and work as any worker does."""
    spool_bytes, scratch = arguments
    host = socket.socket(socket.AF_UNIX)
    # An address of a socket is short: it is named from its own folder.
    os.chdir(scratch)
    host.connect(SOCKET)
    os.chdir("/")
    _, descriptors, _, _ = socket.recv_fds(host, 1, 2)
    worker.main([*map(str, (host.detach(), *descriptors)), spool_bytes, scratch])


if __name__ == "__main__":
    main(sys.argv[1:])
