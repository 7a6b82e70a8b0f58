"""How a download goes on where it was cut (RFC 9110, sections 13 and 14). Pure."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from email.message import Message
from enum import Enum, auto
from typing import Any, Self

_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")


class Plan(Enum):
    """What an answer means for the bytes that are here."""

    #: they are all there is
    COMPLETE = auto()
    #: more follow behind them
    CONTINUE = auto()
    #: the whole follows: what is here goes
    RESTART = auto()
    #: they are not of this file: they go, and it is asked for anew
    RESTART_ASK = auto()
    #: the copy known before is still right
    UNCHANGED = auto()
    #: the server has no bytes to give
    FAIL = auto()


@dataclass(frozen=True, slots=True)
class Origin:
    """Where bytes are from, and what tells whether the file there is still the same."""

    url: str
    etag: str = ""
    modified: str = ""
    size_bytes: int | None = None
    status: int = 0
    retry_after_s: float = 0.0

    @classmethod
    def read(cls, record: Mapping[str, Any], url: str) -> Self | None:
        """Return what was recorded of this URL, None if it was of another or nothing."""
        if record.get("url") != url:
            return None
        size_bytes = record.get("size_bytes")
        return cls(url, str(record.get("etag", "")), str(record.get("modified", "")), size_bytes)

    def record(self) -> Mapping[str, Any]:
        """Return what is to be recorded."""
        return {k: v for k, v in asdict(self).items() if k not in ("status", "retry_after_s")}

    @property
    def validator(self) -> str:
        """What `If-Range` may hold: a strong entity tag, else the date of the last change."""
        return self.etag if self.etag and not self.etag.startswith("W/") else self.modified


def question(
    done_bytes: int, kept: Origin | None, known: Origin | None, *, is_checked: bool
) -> Mapping[str, str]:
    """Return the headers to ask with: for the rest if possible, else for the whole."""
    if done_bytes and kept is not None and kept.validator:
        return {"Range": f"bytes={done_bytes}-", "If-Range": kept.validator}
    if done_bytes and is_checked:
        return {"Range": f"bytes={done_bytes}-"}
    if known is not None and known.etag:
        return {"If-None-Match": known.etag}
    if known is not None and known.modified:
        return {"If-Modified-Since": known.modified}
    return {}


def origin_of(url: str, status: int, headers: Message) -> Origin:
    """Return what an answer says of the file; `size_bytes` is that of the whole."""
    length = headers.get("Content-Length", "")
    size_bytes = int(length) if status == 200 and length.isdecimal() else None
    found = _RANGE.fullmatch(headers.get("Content-Range", ""))
    if status in (206, 416) and found is not None and found[3] != "*":
        size_bytes = int(found[3])
    wait = headers.get("Retry-After", "")
    return Origin(
        url,
        headers.get("ETag", ""),
        headers.get("Last-Modified", ""),
        size_bytes,
        status,
        float(wait) if wait.isdecimal() else 0.0,
    )


def plan(status: int, headers: Message, done_bytes: int, kept: Origin | None, now: Origin) -> Plan:
    """Return what an answer means for the `done_bytes` that are here."""
    if status == 200:
        return Plan.RESTART
    if status == 304:
        return Plan.UNCHANGED
    if status == 206:
        found = _RANGE.fullmatch(headers.get("Content-Range", ""))
        starts_here = found is not None and found[1] is not None and int(found[1]) == done_bytes
        return Plan.CONTINUE if starts_here and _is_same(kept, now) else Plan.RESTART_ASK
    if status == 416 and done_bytes:
        is_whole = now.size_bytes == done_bytes and _is_same(kept, now)
        return Plan.COMPLETE if is_whole else Plan.RESTART_ASK
    return Plan.FAIL


def _is_same(kept: Origin | None, now: Origin) -> bool:
    """Tell whether an answer is of the file that the bytes so far are from.

    An answer that says nothing of it contradicts nothing.
    """
    if kept is None:
        return True
    pairs = [(kept.etag, now.etag), (kept.size_bytes, now.size_bytes)]
    return all(old == new for old, new in pairs if old and new)
