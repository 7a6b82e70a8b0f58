"""Errors of the gateway."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager


class GatewayError(Exception):
    """The gateway cannot serve a request."""


class TooManyViewers(GatewayError):
    """All live streams are in use."""

    def __init__(self, limit: int) -> None:
        """Name the maximum number of streams (MLSCOPE_MAX_LIVE_CLIENTS)."""
        self.limit = limit
        super().__init__(
            f"{limit} live streams are open, the maximum; "
            "set MLSCOPE_MAX_LIVE_CLIENTS to allow more"
        )


class CannotDraw(GatewayError):
    """A chart has no picture; its text says why, for people."""


class BodyTooLarge(GatewayError):
    """A request's body is too large; `fix` says what to do."""

    fix = "publish the inline manifest and name it, or raise MLSCOPE_MAX_REQUEST_BYTES"

    def __init__(self, found_bytes: int, most_bytes: int) -> None:
        """Name the bytes that were read, and the limit."""
        self.found_bytes, self.most_bytes = found_bytes, most_bytes
        super().__init__(
            f"body: found {found_bytes} bytes or more; allowed: {most_bytes} bytes; {self.fix}"
        )


class TooManyBodies(GatewayError):
    """Bodies of other requests take the memory that there is for them."""

    def __init__(self, most_bytes: int) -> None:
        """Name the memory for all bodies."""
        super().__init__(
            f"the bodies of other requests take the {most_bytes} bytes that there are for them, or "
            "those of your own half of that; try again later"
        )


class TooManyWaiting(GatewayError):
    """Too many answers that take much memory or time wait for their turn."""

    def __init__(self, kind: str) -> None:
        """Name the `kind` of answers."""
        super().__init__(f"many {kind} wait for their turn; try again later")


class FileTooLarge(BodyTooLarge):
    """A file is larger than the gateway takes."""

    fix = "give it by an address on the web, use `mlscope run`, or raise MLSCOPE_MAX_UPLOAD_BYTES"


class TooManyFiles(GatewayError):
    """A sender has enough files under way."""

    def __init__(self, files: int) -> None:
        """Name how many there are."""
        super().__init__(f"{files} files of yours are on their way; send this one when one is done")


class FileTooSlow(GatewayError):
    """A file takes too long to arrive, and others wait for its turn."""

    def __init__(self, received_bytes: int, within_s: float) -> None:
        """Name what was received, and in how long."""
        self.received_bytes, self.within_s = received_bytes, within_s
        super().__init__(
            f"body: found {received_bytes} bytes within {within_s:.0f} s, which is too slow; give "
            "the file by an address on the web"
        )


class WrongContentType(GatewayError):
    """A request's media type is not the one that is accepted."""

    def __init__(self, media_type: str, allowed: str = "application/json") -> None:
        """Name the media type of the request, and the one that is `allowed`."""
        self.media_type, self.allowed = media_type, allowed
        super().__init__(f"send {allowed}")


class NoRoom(GatewayError):
    """The gateway's disk has no room for what is sent."""

    def __init__(self) -> None:
        super().__init__(
            "the gateway's disk is full; send the file later, or give it by an address on the web"
        )


def lacks_room(error: BaseException | None) -> bool:
    """Tell whether an `error`, or a cause of it, is that of a full disk."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        error = error.__cause__
    return False


@contextmanager
def needing_room() -> Iterator[None]:
    """Raise NoRoom in place of the error of a full disk."""
    try:
        yield
    except OSError as error:
        if lacks_room(error):
            raise NoRoom from error
        raise
