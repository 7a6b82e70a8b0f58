"""I/O: a blocking socket whose TLS runs in memory: what is written can be encrypted before.

A TLS record is valid whenever it is sent, as long as records go out in the order in which they were
encrypted. An issuer encrypts a query before it is due, and sends it as fast as without TLS.
"""

import socket
import ssl
from contextlib import suppress

CHUNK_BYTES = 1 << 16
"""Bytes to read at a time: more than a TLS record."""


class BrokerSocket:
    """A connected blocking socket, in plain text until `start_tls`.

    Of several threads one at a time may encrypt, decrypt or send; any may read the `raw` socket.
    """

    def __init__(self, raw: socket.socket) -> None:
        """Take over a connected socket."""
        self.raw = raw
        self._tls: ssl.SSLObject | None = None
        self._received, self._encrypted = ssl.MemoryBIO(), ssl.MemoryBIO()

    def start_tls(self, context: ssl.SSLContext, server_name: str) -> None:
        """Shake hands. Raises ssl.SSLError (an OSError) where either side refuses the other."""
        tls = context.wrap_bio(self._received, self._encrypted, server_hostname=server_name)
        is_agreed = False
        while not is_agreed:
            try:
                tls.do_handshake()
                is_agreed = True
            except ssl.SSLWantReadError:
                pass
            finally:
                self.raw.sendall(self._encrypted.read())
            if not is_agreed:
                self._take(self.raw.recv(CHUNK_BYTES))
        self._tls = tls

    def encrypt(self, body: bytes) -> bytes:
        """Return the bytes that say `body` to the server; they must be sent in the order made."""
        if self._tls is None:
            return body
        rest = memoryview(body)
        while rest:
            rest = rest[self._tls.write(rest) :]
        return self._encrypted.read()

    def decrypt(self, received: bytes) -> bytes:
        """Return what bytes received on the raw socket say; b"" while a record is incomplete."""
        if self._tls is None:
            return received
        self._take(received)
        parts = []
        # The server ends TLS just before it ends the connection.
        with suppress(ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            while part := self._tls.read(CHUNK_BYTES):
                parts.append(part)
        return b"".join(parts)

    def sendall(self, body: bytes) -> None:
        """Send `body`."""
        self.raw.sendall(self.encrypt(body))

    def recv(self) -> bytes:
        """Wait for bytes and return them; b"" once the server closed the connection."""
        while received := self.raw.recv(CHUNK_BYTES):
            if plain := self.decrypt(received):
                return plain
        return b""

    def fileno(self) -> int:
        """Return the raw socket's descriptor, readable whenever `recv` has something to return."""
        return self.raw.fileno()

    def settimeout(self, timeout_s: float | None) -> None:
        """Bound each wait of the raw socket; None: for ever."""
        self.raw.settimeout(timeout_s)

    def close(self) -> None:
        """Close the raw socket."""
        self.raw.close()

    def _take(self, received: bytes) -> None:
        if received:
            self._received.write(received)
        else:
            self._received.write_eof()
