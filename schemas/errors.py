"""What can be wrong with a message."""


class SchemaError(Exception):
    """A message is of no use."""


class MalformedMessage(SchemaError):
    """The message does not fit its schema."""

    def __init__(self, *, field: str, found: str, expected: str) -> None:
        """Name the field ('' is the whole body), what was found and what is expected."""
        self.field = field
        self.found = found
        self.expected = expected
        super().__init__(f"{field or 'message'}: {expected} (found {found})")


class UnknownMessage(SchemaError):
    """No schema of this name and version is known here."""

    def __init__(self, *, schema: str, version: int) -> None:
        """Name the schema and the version it asks for."""
        self.schema = schema
        self.version = version
        super().__init__(f"unknown message {schema!r} version {version}")
