"""What the page with the Perfetto UI shows. Pure."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class PerfettoView:
    """A run's trace in the Perfetto UI; where it is not installed, how to install it."""

    evaluation: str
    run: str
    model: str
    is_installed: bool
    install: str
    template: ClassVar[str] = "perfetto.html"

    @property
    def title(self) -> str:
        """The document's title."""
        return f"Perfetto · {self.run} · {self.model or self.evaluation}"

    @property
    def download(self) -> str:
        """The address of the trace as a file."""
        return f"/api/evaluations/{self.evaluation}/runs/{self.run}/exports/perfetto"
