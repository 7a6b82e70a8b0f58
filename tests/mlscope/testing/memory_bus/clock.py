"""A clock that tests set."""


class Clock:
    """Returns its `now_s`, which only a test changes."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.now_s
