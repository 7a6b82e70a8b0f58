"""The part of the NATS client protocol that an issuer of load needs, as functions on bytes.

No event loop stands between the issuer and the time at which a query is due.
Source: the NATS client protocol (INFO, CONNECT, PUB, SUB, MSG, PING, PONG),
https://docs.nats.io/reference/reference-protocols/nats-protocol.
"""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass

PING, PONG, END = b"PING\r\n", b"PONG\r\n", b"\r\n"


@dataclass(frozen=True, slots=True)
class Frame:
    """One protocol message of the server; `kind` is INFO, MSG, PING, PONG, OK or ERR."""

    kind: str
    subject: str = ""
    body: bytes = b""


def connect_line(info: bytes, seed: str | None, name: str) -> bytes:
    """Return the CONNECT line that answers the server's `info` line.

    `name` is the name of the connection. With the nkey `seed`, it holds the public key and the
    signature of the server's nonce.
    """
    options: dict[str, object] = {
        "verbose": False,
        "pedantic": False,
        "lang": "python",
        "version": "1",
        "protocol": 1,
        "headers": False,
        "name": name,
    }
    if seed is not None:
        import nkeys  # only needed where users have keys

        pair = nkeys.from_seed(seed.strip().encode())
        signature = pair.sign(str(json.loads(info)["nonce"]).encode())
        options["nkey"] = pair.public_key.decode()
        options["sig"] = base64.urlsafe_b64encode(signature).rstrip(b"=").decode()
    return b"CONNECT " + json.dumps(options).encode() + END


def publication(subject: str, reply: str, body: bytes) -> bytes:
    """Return the bytes that publish `body` on `subject` with the reply subject `reply`."""
    return f"PUB {subject} {reply} {len(body)}\r\n".encode() + body + END


def subscription(subject: str) -> bytes:
    """Return the bytes that subscribe to a subject."""
    return f"SUB {subject} 1\r\n".encode()


class Parser:
    """Parses received bytes into frames; buffers an incomplete frame."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, received: bytes) -> Iterator[Frame]:
        """Yield every complete frame; those that a caller leaves are yielded the next time.

        Raises ValueError for bytes that are not NATS protocol.
        """
        self._buffer += received
        while (end := self._buffer.find(END)) >= 0:
            data = self._buffer
            fields = data[:end].split()
            size = int(fields[-1]) if fields and fields[0] == b"MSG" else -1
            if size >= 0 and len(data) < end + 2 + size + 2:
                break
            body_at = end + 2
            self._buffer = data[body_at + size + 2 if size >= 0 else body_at :]
            yield _frame(fields, data[:end], data[body_at : body_at + max(size, 0)])


def _frame(fields: list[bytes], line: bytes, body: bytes) -> Frame:
    kind = fields[0].upper() if fields else b""
    if kind == b"MSG":
        return Frame("MSG", fields[1].decode(), body)
    if kind == b"INFO":
        return Frame("INFO", body=line[4:].strip())
    if kind in (b"PING", b"PONG", b"+OK", b"-ERR"):
        return Frame(kind.decode().strip("+-"), body=line[4:].strip())
    raise ValueError(f"not the NATS protocol: {line[:60]!r}")
