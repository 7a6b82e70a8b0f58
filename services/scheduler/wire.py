"""The part of the NATS protocol an issuer needs, as pure bytes: no event loop between it and time.

Source: the NATS client protocol (INFO, CONNECT, PUB, SUB, MSG, PING, PONG).
"""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass

PING, PONG, END = b"PING\r\n", b"PONG\r\n", b"\r\n"


@dataclass(frozen=True, slots=True)
class Frame:
    """One thing the server said: `kind` is INFO, MSG, PING, PONG, OK or ERR."""

    kind: str
    subject: str = ""
    body: bytes = b""


def connect_line(info: bytes, seed: str | None, name: str) -> bytes:
    """Answer the server's INFO: a CONNECT that proves the nkey by signing the server's nonce."""
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
        import nkeys  # no agent needs it, and this module is pure bytes without it

        pair = nkeys.from_seed(seed.strip().encode())
        signature = pair.sign(str(json.loads(info)["nonce"]).encode())
        options["nkey"] = pair.public_key.decode()
        options["sig"] = base64.urlsafe_b64encode(signature).rstrip(b"=").decode()
    return b"CONNECT " + json.dumps(options).encode() + END


def publication(subject: str, reply: str, body: bytes) -> bytes:
    """Return the bytes that publish `body` and ask for an answer on `reply`."""
    return f"PUB {subject} {reply} {len(body)}\r\n".encode() + body + END


def subscription(subject: str) -> bytes:
    """Return the bytes that subscribe to a subject."""
    return f"SUB {subject} 1\r\n".encode()


class Parser:
    """Turns received bytes into frames; keeps what is not whole yet."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, received: bytes) -> Iterator[Frame]:
        """Yield every whole frame. Raises ValueError for what is not the NATS protocol."""
        data, at = self._rest + received, 0
        while (end := data.find(END, at)) >= 0:
            words = data[at:end].split()
            size = int(words[-1]) if words and words[0] == b"MSG" else -1
            if size >= 0 and len(data) < end + 2 + size + 2:
                break
            body_at = end + 2
            yield _frame(words, data[at:end], data[body_at : body_at + max(size, 0)])
            at = body_at + size + 2 if size >= 0 else body_at
        self._rest = data[at:]


def _frame(words: list[bytes], line: bytes, body: bytes) -> Frame:
    kind = words[0].upper() if words else b""
    if kind == b"MSG":
        return Frame("MSG", words[1].decode(), body)
    if kind == b"INFO":
        return Frame("INFO", body=line[4:].strip())
    if kind in (b"PING", b"PONG", b"+OK", b"-ERR"):
        return Frame(kind.decode().strip("+-"), body=line[4:].strip())
    raise ValueError(f"not the NATS protocol: {line[:60]!r}")
