"""Errors of metrics. Pure."""


class AccuracyError(Exception):
    """A metric cannot be computed."""


class NotANumber(AccuracyError):
    """A prediction or truth is NaN, or infinite where infinity has no meaning."""

    def __init__(self, sample: int | str) -> None:
        """Name the first such `sample`, by index or by name."""
        self.sample = sample
        super().__init__(f"sample {sample} holds a value that is not a (finite) number")


class ShapesDiffer(AccuracyError):
    """Two values that belong together differ in shape or length."""

    def __init__(self, pair: str, first: object, second: object) -> None:
        """Name the compared `pair`, and the shapes or lengths of its `first` and `second` part."""
        self.pair, self.first, self.second = pair, first, second
        super().__init__(f"{pair}: {first} against {second}")


class UnknownLabel(AccuracyError):
    """A label is not one of the classes."""

    def __init__(self, sample: int | str, label: int, classes: int) -> None:
        """Name the `sample`, its `label` and the number of `classes`, which count from 0."""
        self.sample, self.label, self.classes = sample, label, classes
        super().__init__(f"sample {sample} is labelled {label}, allowed is 0 to {classes - 1}")


class NotProbabilities(AccuracyError):
    """Probabilities are negative or do not sum to 1."""

    def __init__(self, sample: int | str, least: float, total: float) -> None:
        """Name the `sample`, the `least` of its values and their sum (`total`)."""
        self.sample, self.least, self.total = sample, least, total
        super().__init__(f"sample {sample}: least value {least}, sum {total}")


class Unusable(AccuracyError):
    """An argument is outside the range of its formula."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        """Give the argument's `name`, its `value` and, in words, the `allowed` values."""
        self.name, self.value, self.allowed = name, value, allowed
        super().__init__(f"{name} is {value}, allowed is {allowed}")
