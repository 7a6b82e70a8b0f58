"""What can go wrong with numbers."""


class StatisticsError(Exception):
    """A statistic cannot be computed."""


class NoValues(StatisticsError):
    """There are no values to summarise."""


class NotFinite(StatisticsError):
    """A value is infinite or not a number."""

    def __init__(self, index: int) -> None:
        """Name the first such value's index."""
        self.index = index
        super().__init__(f"value {index} is infinite or not a number")


class OutOfRange(StatisticsError):
    """An argument is outside what its formula allows."""

    def __init__(self, name: str, found: float, allowed: str) -> None:
        """Name the argument, what it is and what it may be."""
        self.name, self.found, self.allowed = name, found, allowed
        super().__init__(f"{name} is {found}, allowed is {allowed}")
