"""What can be wrong with a manifest."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong: where it is, what is there, and what may be.

    `line` counts from 1; 0 is unknown, as for a manifest that came in a message.
    """

    field: str
    found: str
    allowed: str
    line: int = 0

    def text(self, file: str) -> str:
        """Return `file:line: field: found …, allowed: …`."""
        place = f"{file}:{self.line}" if self.line else file
        field = f"{self.field}: " if self.field else ""
        return f"{place}: {field}found {self.found}, allowed: {self.allowed}"


class ManifestError(Exception):
    """A manifest can't be used."""


class ManifestFaulty(ManifestError):
    """A text is no manifest; `faults` are in the text's order, at least one."""

    def __init__(self, file: str, faults: Sequence[Fault]) -> None:
        """Name the file and everything that is wrong with it."""
        assert faults, "a faulty manifest has a fault"
        self.file, self.faults = file, tuple(faults)
        super().__init__("\n".join(fault.text(file) for fault in self.faults))


class NoVariant(ManifestError):
    """A model has no variant for a framework."""

    def __init__(self, model: str, framework: str, known: Sequence[str]) -> None:
        """Name the model, the framework that was wanted and those there are."""
        self.model, self.framework, self.known = model, framework, tuple(known)
        super().__init__(f"{model} has no variant for {framework}; it has {', '.join(known)}")


class BadConstraint(ManifestError):
    """A text is no version constraint."""

    def __init__(self, text: str) -> None:
        """Keep the text."""
        self.text = text
        super().__init__(
            f"{text!r} is no version constraint; write >=1.12.0 <2.0, ==1.15.* or 1.15"
        )
