"""Faults and errors of manifests. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: its field, the value there, and the allowed ones.

    `line` counts from 1; 0 is unknown, as for a manifest from a message.
    """

    field: str
    found: str
    allowed: str
    line: int = 0

    def text(self, file: str) -> str:
        """Return the fault as `file:line: field: found …, allowed: …`."""
        location = f"{file}:{self.line}" if self.line else file
        field = f"{self.field}: " if self.field else ""
        return f"{location}: {field}found {self.found}, allowed: {self.allowed}"


class ManifestError(Exception):
    """A manifest can't be used."""


class ManifestFaulty(ManifestError):
    """A text is no valid manifest; `faults` has at least one, in the text's order."""

    def __init__(self, file: str, faults: Sequence[Fault]) -> None:
        """Name the file and all its faults."""
        assert faults, "a faulty manifest has a fault"
        self.file, self.faults = file, tuple(faults)
        super().__init__("\n".join(fault.text(file) for fault in self.faults))


class NoVariant(ManifestError):
    """A model has no variant for a framework."""

    def __init__(self, model: str, framework: str, frameworks: Sequence[str]) -> None:
        """Name the `model`, the requested `framework` and the `frameworks` that it supports."""
        self.model, self.framework, self.frameworks = model, framework, tuple(frameworks)
        names = ", ".join(frameworks)
        super().__init__(f"{model} has no variant for {framework}; it has {names}")


class BadConstraint(ManifestError):
    """A text is not a version constraint."""

    def __init__(self, text: str) -> None:
        """Name the text."""
        self.text = text
        super().__init__(
            f"{text!r} is not a version constraint; write >=1.12.0 <2.0, ==1.15.* or 1.15"
        )
