"""A bundle: a file with the facts of evaluations that ran without a broker.

Layout: the 8 bytes `MLSCOPE1`; then for each fact its length (little-endian uint32, never 0) and
its encoded envelope, in the order of publication; then a length of 0 and the SHA-256 (32 bytes) of
everything before that length. A cut or altered file is detected before any of it is used.
"""

import hashlib
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from mlscope.exchange.errors import BundleBroken
from schemas.encoding.codec import encode
from schemas.message import Envelope, Fact

MAGIC = b"MLSCOPE1"
_LENGTH = struct.Struct("<I")
_MAX_BYTES = 64 << 20


class BundleWriter:
    """A bundle being written, within a `with`. The file gets its name when it is complete.

    `on_fact` is called with each fact that was written. Raises OSError where it can't be created.
    """

    def __init__(self, path: Path, on_fact: Callable[[Fact], None] | None = None) -> None:
        self._path, self._part = path, path.with_name(f"{path.name}.part")
        self._on_fact = on_fact
        self._digest = hashlib.sha256()
        self._file = self._part.open("wb")
        self._write(MAGIC)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._file.write(_LENGTH.pack(0) + self._digest.digest())
        self._file.close()
        if kind is None:
            self._part.replace(self._path)

    async def put(self, fact: Fact, *, id: str, cause: str) -> None:  # noqa: A002
        """Write `fact` with its message's `id` and the id of the message that is its `cause`."""
        body = encode(Envelope.around(fact, id=id, cause=cause, time_ns=time.time_ns()))
        self._write(_LENGTH.pack(len(body)) + body)
        if self._on_fact is not None:
            self._on_fact(fact)

    def _write(self, body: bytes) -> None:
        self._digest.update(body)
        self._file.write(body)


def read_bundle(path: Path) -> Iterator[bytes]:
    """Yield the encoded envelopes of a bundle, in order. Raises BundleBroken.

    The whole file is checked before the first is yielded, so that a damaged file is never used.
    """
    for _, body in read_placed(path):
        yield body


def read_placed(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the envelopes of a bundle as `read_bundle`, each with its place for `body_at`."""
    for _ in _records(path):
        pass
    yield from _records(path)


def body_at(file: BinaryIO, place: int) -> bytes:
    """Return the envelope at a place of a bundle that is open. Raises BundleBroken."""
    path = Path(file.name)
    file.seek(place)
    return _body(path, file, _length(path, file.read(_LENGTH.size)))


def _records(path: Path) -> Iterator[tuple[int, bytes]]:
    digest = hashlib.sha256()
    try:
        file = path.open("rb")
    except OSError as error:
        raise BundleBroken(str(path), error.strerror or str(error)) from error
    with file:
        if file.read(len(MAGIC)) != MAGIC:
            raise BundleBroken(str(path), "is not a bundle")
        digest.update(MAGIC)
        place = len(MAGIC)
        while length := _length(path, head := file.read(_LENGTH.size)):
            body = _body(path, file, length)
            digest.update(head + body)
            yield place, body
            place += len(head) + length
        if file.read() != digest.digest():
            raise BundleBroken(str(path), "does not match its checksum")


def _body(path: Path, file: BinaryIO, length: int) -> bytes:
    body = file.read(length)
    if len(body) != length:
        raise BundleBroken(str(path), "is cut short")
    return body


def _length(path: Path, head: bytes) -> int:
    if len(head) != _LENGTH.size:
        raise BundleBroken(str(path), "is cut short")
    length: int = _LENGTH.unpack(head)[0]
    if length > _MAX_BYTES:
        raise BundleBroken(str(path), "is altered")
    return length
