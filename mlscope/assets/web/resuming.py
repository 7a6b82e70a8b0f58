"""Resuming an interrupted download (RFC 9110, sections 13 and 14). Pure."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from email.message import Message
from enum import Enum, auto
from typing import Any, Self

_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")


class Plan(Enum):
    """How to use an HTTP answer, given the bytes received before."""

    #: the bytes received before are the complete file
    COMPLETE = auto()
    #: the answer continues them
    CONTINUE = auto()
    #: the answer is the complete file: drop the bytes received before
    RESTART = auto()
    #: the file changed: drop the bytes received before and send a new request
    RESTART_ASK = auto()
    #: the cached copy is current
    UNCHANGED = auto()
    #: the server sends no file
    FAIL = auto()


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of bytes: the URL, and the validators that tell whether its file has changed."""

    url: str
    etag: str = ""
    modified: str = ""
    size_bytes: int | None = None
    status: int = 0
    retry_after_s: float = 0.0

    @classmethod
    def read(cls, record: Mapping[str, Any], url: str) -> Self | None:
        """Return the origin in a record, None if the record is empty or of another URL."""
        if record.get("url") != url:
            return None
        size_bytes = record.get("size_bytes")
        return cls(url, str(record.get("etag", "")), str(record.get("modified", "")), size_bytes)

    def record(self) -> Mapping[str, Any]:
        """Return the fields to record."""
        return {k: v for k, v in asdict(self).items() if k not in ("status", "retry_after_s")}

    @property
    def validator(self) -> str:
        """The value for `If-Range`: a strong entity tag, or else the date of the last change."""
        return self.etag if self.etag and not self.etag.startswith("W/") else self.modified


def request_headers(
    done_bytes: int, partial_origin: Origin | None, cached: Origin | None, *, is_checked: bool
) -> Mapping[str, str]:
    """Return the headers of a request for the remaining bytes if possible, else for the file.

    `done_bytes` were received before from `partial_origin`; `cached` is the origin of a complete
    copy; `is_checked` tells that a checksum will be compared.
    """
    if done_bytes and partial_origin is not None and partial_origin.validator:
        return {"Range": f"bytes={done_bytes}-", "If-Range": partial_origin.validator}
    if done_bytes and is_checked:
        return {"Range": f"bytes={done_bytes}-"}
    if cached is None:
        return {}
    if cached.etag:
        return {"If-None-Match": cached.etag}
    return {"If-Modified-Since": cached.modified} if cached.modified else {}


def origin_of(url: str, status: int, headers: Message) -> Origin:
    """Return the origin in the `headers` of an answer from `url` with `status`.

    Its `size_bytes` is the size of the complete file.
    """
    length = headers.get("Content-Length", "")
    size_bytes = int(length) if status == 200 and length.isdecimal() else None
    content_range = _RANGE.fullmatch(headers.get("Content-Range", ""))
    if status in (206, 416) and content_range is not None and content_range[3] != "*":
        size_bytes = int(content_range[3])
    wait = headers.get("Retry-After", "")
    return Origin(
        url,
        headers.get("ETag", ""),
        headers.get("Last-Modified", ""),
        size_bytes,
        status,
        float(wait) if wait.isdecimal() else 0.0,
    )


def plan(
    status: int, headers: Message, done_bytes: int, partial_origin: Origin | None, now: Origin
) -> Plan:
    """Return how to use an answer with `status` and `headers`.

    `done_bytes` were received before from `partial_origin`; `now` is the origin in the answer.
    """
    if status == 206:
        content_range = _RANGE.fullmatch(headers.get("Content-Range", ""))
        fits = (
            content_range is not None
            and content_range[1] == str(done_bytes)
            and _is_same(partial_origin, now)
        )
        return Plan.CONTINUE if fits else Plan.RESTART_ASK
    if status == 416 and done_bytes:
        is_whole = now.size_bytes == done_bytes and _is_same(partial_origin, now)
        return Plan.COMPLETE if is_whole else Plan.RESTART_ASK
    return {200: Plan.RESTART, 304: Plan.UNCHANGED}.get(status, Plan.FAIL)


def _is_same(partial_origin: Origin | None, now: Origin) -> bool:
    """Tell whether an answer is about the same file as the bytes received before.

    Missing validators count as equal.
    """
    if partial_origin is None:
        return True
    pairs = [(partial_origin.etag, now.etag), (partial_origin.size_bytes, now.size_bytes)]
    return all(old == new for old, new in pairs if old and new)
