"""The issuing processes' own parts."""

import socket
import threading

from services.scheduler.remote_load.issuer import write_all


def test_what_one_write_leaves_is_written_too() -> None:
    """A connection with a time limit takes only what its buffer has room for."""
    body = bytes(range(256)) * 4096
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(30)
        writer = threading.Thread(target=write_all, args=(ours, body))
        writer.start()
        received = bytearray()
        while len(received) < len(body) and (part := theirs.recv(1 << 16)):
            received += part
            theirs.settimeout(5)
        writer.join()
    assert received == body
