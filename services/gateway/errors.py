"""What can go wrong in the gateway."""


class GatewayError(Exception):
    """The gateway could not serve a client."""


class TooManyViewers(GatewayError):
    """Every live stream is taken."""

    def __init__(self, limit: int) -> None:
        """Name the limit (MLSCOPE_MAX_LIVE_CLIENTS)."""
        self.limit = limit
        super().__init__(f"{limit} live streams are open already")


class WrongContentType(GatewayError):
    """A body is not said to be JSON."""

    def __init__(self, found: str) -> None:
        """Say what the body's type was."""
        self.found = found
        super().__init__("send application/json")
