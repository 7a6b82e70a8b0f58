"""What can go wrong with a load."""


class LoadError(Exception):
    """A load cannot be made or issued."""


class ScenarioError(LoadError):
    """A scenario cannot be had, or not with these parameters."""


class UnknownScenario(ScenarioError):
    """No scenario goes by that name."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        """Name what was asked for and what there is."""
        self.name = name
        self.known = known
        super().__init__(f"no scenario {name!r}; there are: {', '.join(known)}")


class InvalidParameter(ScenarioError):
    """A scenario's parameter is not what the scenario can use."""

    def __init__(self, scenario: str, field: str, found: object, allowed: str) -> None:
        """Name the scenario and its field, what was found there, and what is allowed."""
        self.scenario = scenario
        self.field = field
        self.found = found
        self.allowed = allowed
        super().__init__(f"{scenario}.{field}: found {found!r}, allowed is {allowed}")


class PacerDied(LoadError):
    """The pacer's process ended, or fell silent, before its schedule did."""

    def __init__(self, issued: int, queries: int, exit_code: int | None, message: str = "") -> None:
        """Say how far it came, its exit code (None: silent but alive) and its last words."""
        self.issued = issued
        self.queries = queries
        self.exit_code = exit_code
        self.message = message
        how = "fell silent" if exit_code is None else f"ended with {exit_code}"
        super().__init__(f"pacer {how} after {issued} of {queries} queries {message}".rstrip())
