"""What is read of HTTP within bounds: heads, and bodies in parts, once somebody asks for them.

h11 makes an object of each header and each chunk, in whatever arrived at once. A head of 12,000
headers, or a body in chunks of one byte, would keep the gateway's loop busy for seconds for every
megabyte, without any right. So h11 is given one head at a time once it is checked, and of a body
only the next part, when the application reads on. Pure.
"""

import re

import h11

MOST_HEAD_BYTES = 64 * 1024
"""The longest head: pages with prices of thousands of agents have long addresses."""

MOST_PATH_BYTES = 8 * 1024
"""The longest path of an address."""

MOST_HEADERS_BYTES = 16 * 1024
"""What the headers of a request may have together."""

MOST_HEADERS = 100
"""Headers of a request."""

FREE_CHUNKS = 1000
"""Chunks of a body that may be of any size."""

LEAST_CHUNK_BYTES = 64
"""What the chunks of a body with more than `FREE_CHUNKS` have on average, at least."""

_PART_BYTES = 256 * 1024
_PART_LINES = 64
"""Lines of a chunked body that are read in one go: each chunk begins with one, a trailer is one."""
_MOST_SILENT_BYTES = 4096
"""What a chunked body may have of lines around its content in a row."""

_END_OF_HEAD = re.compile(rb"\n\r?\n")
_LINES = re.compile(rb"(?:[^\n]*+\n){%d}+" % _PART_LINES)
_FIRST_VISIBLE = 0x21


class BoundedReading(h11.Connection):
    """h11's side of a server, which takes a head within the bounds, and a body as it is asked for.

    What h11 is not given yet is held: a protocol that stops to read on `h11.PAUSED` holds little.
    """

    def __init__(self) -> None:
        """Begin a connection."""
        super().__init__(h11.SERVER, MOST_HEAD_BYTES)
        self.refusal: tuple[int, str] | None = None
        """The status and the reason where a bound was passed."""
        self._held = bytearray()
        # What has to be held of a head that is begun before it is worth a look.
        self._least_bytes = 0
        self._is_asked = False
        self._left_bytes: int | None = 0
        self._chunks = self._content_bytes = self._silent_bytes = 0

    @property
    def holds_data(self) -> bool:
        """Whether something arrived that is not read yet."""
        return bool(self._held)

    @property
    def awaits_body(self) -> bool:
        """Whether a request's body has not been read to its end."""
        return self.their_state is h11.SEND_BODY

    def ask(self) -> None:
        """Have the next part of the body read."""
        self._is_asked = True

    def drop(self) -> None:
        """Forget what arrived and is not read yet."""
        self._held.clear()

    def receive_data(self, data: bytes) -> None:
        """Take `data` that arrived."""
        self._held += data
        if b"\n" in data:
            self._least_bytes = 0

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Return what was read next: h11's event, or why there is none.

        That is `h11.PAUSED` while the body is not asked for, or an answer is awaited before the
        next head. Raises h11.RemoteProtocolError for what is no HTTP or passes a bound: `refusal`
        says which.
        """
        while True:
            if self.their_state is h11.IDLE and not self._give_head():
                return h11.NEED_DATA
            event = super().next_event()
            if isinstance(event, h11.Request):
                self._begin_body(event)
            elif isinstance(event, h11.Data):
                self._count(event)
            if event is not h11.NEED_DATA:
                return event
            if self.their_state is not h11.SEND_BODY:
                return h11.PAUSED if self._held else h11.NEED_DATA
            if not self._is_asked:
                return h11.PAUSED
            if not self._held:
                return h11.NEED_DATA
            self._give(self._size_of_part())

    def _give(self, size: int) -> None:
        """Give h11 the next `size` bytes that arrived."""
        super().receive_data(bytes(self._held[:size]))
        del self._held[:size]

    def _give_head(self) -> bool:
        """Give h11 a whole head once it is there, and return whether it is."""
        if len(self._held) < self._least_bytes:
            return False
        # h11 may have its beginning, if it came in one part with the end of a chunked body.
        begun = self.trailing_data[0]
        arrived = begun + bytes(self._held[: MOST_HEAD_BYTES + 1])
        end = _END_OF_HEAD.search(arrived)
        head = arrived[: end.end()] if end else arrived
        target = head[: head.find(b"\n") + 1] or head
        if len(target.partition(b"?")[0]) > MOST_PATH_BYTES:
            raise self._refuse(414, f"the path has more than {MOST_PATH_BYTES} bytes")
        # A line more for the request, and an empty one at the end.
        if head.count(b"\n") > MOST_HEADERS + 2:
            raise self._refuse(431, f"the request has more than {MOST_HEADERS} headers")
        if len(head) - len(target) > MOST_HEADERS_BYTES:
            raise self._refuse(431, f"the headers have more than {MOST_HEADERS_BYTES} bytes")
        if len(head) > MOST_HEAD_BYTES:
            raise self._refuse(431, f"address and headers have more than {MOST_HEAD_BYTES} bytes")
        # What begins with no letter will be no head, such as TLS: h11 says so at once.
        if end is None and not (arrived and arrived[0] < _FIRST_VISIBLE):
            if arrived:
                self._least_bytes = _most_without_a_line(target) + 1 - len(begun)
            return False
        self._least_bytes = 0
        self._give(max(len(head) - len(begun), 0))
        return True

    def _begin_body(self, request: h11.Request) -> None:
        """Begin to count a request's body."""
        headers = dict(request.headers)
        is_chunked = b"transfer-encoding" in headers
        self._left_bytes = None if is_chunked else int(headers.get(b"content-length", b"0"))
        self._is_asked = False
        self._chunks = self._content_bytes = self._silent_bytes = 0

    def _size_of_part(self) -> int:
        """Return how much of what is held h11 is given as the next part of the body."""
        if self._left_bytes is not None:
            # Not a byte of the next head.
            return min(len(self._held), _PART_BYTES, self._left_bytes)
        if self._silent_bytes > _MOST_SILENT_BYTES:
            most = f"{_MOST_SILENT_BYTES} bytes around a chunk of the body"
            raise self._refuse(400, f"there are more than {most}")
        # Within a chunk lines mean nothing. Were h11's count elsewhere, it would only take longer.
        if inside := getattr(self._reader, "_bytes_in_chunk", 0):
            return min(len(self._held), _PART_BYTES, inside)
        lines = _LINES.match(self._held, 0, _PART_BYTES)
        size = lines.end() if lines else min(len(self._held), _PART_BYTES)
        self._silent_bytes += size
        return size

    def _count(self, data: h11.Data) -> None:
        """Count a part of the body, which answers who asked for it."""
        self._is_asked = False
        self._silent_bytes = 0
        if self._left_bytes is not None:
            self._left_bytes -= len(data.data)
        self._chunks += data.chunk_end
        self._content_bytes += len(data.data)
        is_fine = self._content_bytes >= LEAST_CHUNK_BYTES * self._chunks
        if self._chunks > FREE_CHUNKS and not is_fine:
            least = f"send chunks of {LEAST_CHUNK_BYTES} bytes or more"
            raise self._refuse(
                400, f"the body comes in more than {FREE_CHUNKS} tiny chunks; {least}"
            )

    def _refuse(self, status: int, reason: str) -> h11.RemoteProtocolError:
        self.refusal = (status, reason)
        return h11.RemoteProtocolError(reason, error_status_hint=status)


def _most_without_a_line(target: bytes) -> int:
    """Return how long a head may become without another end of a line, which begins so."""
    if target.endswith(b"\n"):
        return min(MOST_HEAD_BYTES, len(target) + MOST_HEADERS_BYTES)
    return MOST_HEAD_BYTES if b"?" in target else MOST_PATH_BYTES
