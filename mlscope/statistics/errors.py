"""Errors of statistics."""


class StatisticsError(Exception):
    """A statistic can't be computed."""


class NoValues(StatisticsError):
    """There are no values to summarise."""


class NotFinite(StatisticsError):
    """A value is infinite or not a number."""

    def __init__(self, index: int) -> None:
        """Give the index of the first such value."""
        self.index = index
        super().__init__(f"value {index} is infinite or not a number")


class OutOfRange(StatisticsError):
    """An argument is outside what its formula allows."""

    def __init__(self, name: str, actual: float, allowed: str) -> None:
        """Give the argument's `name`, its `actual` value and, in words, the `allowed` values."""
        self.name, self.actual, self.allowed = name, actual, allowed
        super().__init__(f"{name} is {actual}, allowed is {allowed}")
