"""What can go wrong in the gateway."""


class GatewayError(Exception):
    """The gateway could not serve a client."""


class TooManyViewers(GatewayError):
    """Every live stream is taken."""

    def __init__(self, limit: int) -> None:
        """Name the limit (MLSCOPE_MAX_LIVE_CLIENTS)."""
        self.limit = limit
        super().__init__(f"{limit} live streams are open already")


class BodyTooLarge(GatewayError):
    """A body is larger than a request may be."""

    def __init__(self, found_bytes: int, most_bytes: int) -> None:
        """Say how much came before reading ended, and the limit."""
        self.found_bytes, self.most_bytes = found_bytes, most_bytes
        super().__init__(
            f"body: found {found_bytes} bytes or more; allowed: {most_bytes} bytes; "
            "publish an inline manifest and name it, or raise MLSCOPE_MAX_REQUEST_BYTES"
        )


class WrongContentType(GatewayError):
    """A body is not said to be JSON."""

    def __init__(self, found: str) -> None:
        """Say what the body's type was."""
        self.found = found
        super().__init__("send application/json")
