"""Messages between an issuing process and its parent: on standard input and standard output."""

import os
import struct


def read_exactly(size: int) -> bytes:
    """Return `size` bytes of standard input. Raises EOFError."""
    data = b""
    while len(data) < size:
        chunk = os.read(0, size - len(data))
        if not chunk:
            raise EOFError
        data += chunk
    return data


def write_message(message: bytes) -> None:
    """Write a message to standard output after its length."""
    data = struct.pack("<I", len(message)) + message
    while data:
        data = data[os.write(1, data) :]
