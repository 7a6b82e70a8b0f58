"""Errors of settings."""

from mlscope.redaction import redact


class NotParsed(Exception):
    """A text can't be parsed; the argument says what was expected."""


class InvalidSetting(ValueError):
    """The value of a setting can't be used."""

    def __init__(self, name: str, value: str, expected: str) -> None:
        """Give the variable's `name`, its `value` and, in words, the `expected` values."""
        self.name = name
        self.value = value
        self.expected = expected
        super().__init__(f"{name}={redact(value)}: expected {expected}")
