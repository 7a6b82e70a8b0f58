"""Errors of loads."""


class LoadError(Exception):
    """A load can't be made or issued."""


class ScenarioError(LoadError):
    """A scenario does not exist, or can't use its parameters."""


class UnknownScenario(ScenarioError):
    """No scenario has this name."""

    def __init__(self, name: str, available: tuple[str, ...]) -> None:
        """Give the name and the names of the available scenarios."""
        self.name = name
        self.available = available
        super().__init__(f"no scenario {name!r}; known scenarios: {', '.join(available)}")


class InvalidParameter(ScenarioError):
    """A parameter of a scenario has a value that the scenario can't use."""

    def __init__(self, scenario: str, field: str, actual: object, allowed: str) -> None:
        """Give the `scenario`, its `field`, the `actual` value and the `allowed` ones in words."""
        self.scenario = scenario
        self.field = field
        self.actual = actual
        self.allowed = allowed
        super().__init__(f"{scenario}.{field}: found {actual!r}, allowed is {allowed}")


class UnknownParameter(InvalidParameter):
    """A scenario has no parameter of this name."""

    def __init__(
        self, scenario: str, field: str, actual: object, available: tuple[str, ...]
    ) -> None:
        """Give the `scenario`, the unknown `field`, its `actual` value, and what is `available`."""
        super().__init__(scenario, field, actual, ", ".join(available))
        self.args = (f"{scenario}.{field}: no such parameter; known parameters: {self.allowed}",)


class TooLong(LoadError):
    """A schedule does not end within int64 nanoseconds (292 years)."""


class LoadTooSlow(LoadError):
    """A scenario of another package does not make its load in time."""

    def __init__(self, scenario: str, within_s: float) -> None:
        """Give the `scenario`, and `within_s`, the time that it had."""
        super().__init__(
            f"the scenario {scenario!r} of another package made no load within {within_s:g} s; "
            "ask for fewer queries, or mend the package"
        )


class PacerDied(LoadError):
    """The pacer's process ended, or stopped responding, before the end of its schedule."""

    def __init__(self, issued: int, queries: int, exit_code: int | None, message: str = "") -> None:
        """Give the queries `issued` of all `queries`, the `exit_code` and the last error `message`.

        An exit code of None means that the process lives but does not respond.
        """
        self.issued = issued
        self.queries = queries
        self.exit_code = exit_code
        self.message = message
        end = "stopped responding" if exit_code is None else f"ended with code {exit_code}"
        super().__init__(f"pacer {end} after {issued} of {queries} queries {message}".rstrip())
