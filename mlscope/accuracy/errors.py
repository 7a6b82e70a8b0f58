"""What can go wrong when predictions are judged."""


class AccuracyError(Exception):
    """A metric cannot be computed."""


class NotANumber(AccuracyError):
    """A sample's prediction or truth is not a number, or infinite where that has no meaning."""

    def __init__(self, sample: int | str) -> None:
        """Name the first such sample, by index or by name."""
        self.sample = sample
        super().__init__(f"sample {sample} holds a value that is not a (finite) number")


class ShapesDiffer(AccuracyError):
    """Two things that belong together do not have the same shape or length."""

    def __init__(self, what: str, first: object, second: object) -> None:
        """Name what was compared, and both shapes or lengths."""
        self.what, self.first, self.second = what, first, second
        super().__init__(f"{what}: {first} against {second}")


class UnknownLabel(AccuracyError):
    """A label is not one of the classes that were predicted."""

    def __init__(self, sample: int | str, found: int, classes: int) -> None:
        """Name the sample, its label and how many classes there are, counted from 0."""
        self.sample, self.found, self.classes = sample, found, classes
        super().__init__(f"sample {sample} is labelled {found}, allowed is 0 to {classes - 1}")


class NotProbabilities(AccuracyError):
    """Values given as probabilities are negative or do not sum to 1."""

    def __init__(self, sample: int | str, least: float, total: float) -> None:
        """Name the sample, its least value and its sum."""
        self.sample, self.least, self.total = sample, least, total
        super().__init__(f"sample {sample}: least value {least}, sum {total}")


class Unusable(AccuracyError):
    """An argument is outside what its formula allows."""

    def __init__(self, name: str, found: object, allowed: str) -> None:
        """Name the argument, what it is and what it may be."""
        self.name, self.found, self.allowed = name, found, allowed
        super().__init__(f"{name} is {found}, allowed is {allowed}")
