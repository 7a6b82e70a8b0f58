"""Errors of messages."""


class SchemaError(Exception):
    """A message can't be used."""


class MalformedMessage(SchemaError):
    """The message does not fit its schema."""

    def __init__(self, *, field: str, found: str, expected: str) -> None:
        """Name the `field` ('' for the body), the value `found` there and what is `expected`."""
        self.field = field
        self.found = found
        self.expected = expected
        super().__init__(f"{field or 'message'}: {expected} (found {found})")


class UnknownMessage(SchemaError):
    """The message's name or version is unknown here."""

    def __init__(self, *, schema: str, version: int) -> None:
        """Name the `schema` and the `version` in the envelope."""
        self.schema = schema
        self.version = version
        super().__init__(f"unknown message {schema!r} version {version}")
