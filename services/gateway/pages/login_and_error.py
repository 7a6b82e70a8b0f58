"""Views of the login page and of an error. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from schemas.request import Refused

_TITLES: Mapping[str, str] = MappingProxyType(
    {
        "unknown": "Not found",
        "malformed": "Not understood",
        "invalid": "Not possible",
        "busy": "Too busy now",
        "unavailable": "Not available now",
        "unsatisfiable": "No agent fits",
        "conflict": "Not possible now",
    }
)


@dataclass(frozen=True, slots=True)
class LoginView:
    """The form for the bearer token, with a `note` above it."""

    note: str = ""
    template: ClassVar[str] = "login.html"
    title: ClassVar[str] = "Log in"


@dataclass(frozen=True, slots=True)
class ErrorView:
    """Why a request was refused, with links to where to go on."""

    refused: Refused
    template: ClassVar[str] = "error.html"

    @property
    def title(self) -> str:
        """The kind of error as a heading."""
        return _TITLES.get(self.refused.error, self.refused.error.capitalize())

    @property
    def message(self) -> str:
        """What is wrong, as a sentence."""
        text, field = self.refused.message, self.refused.field
        # A field keeps the name that a reader has to correct.
        begin = text[:1] if field and text.startswith(field) else text[:1].upper()
        return f"{begin}{text[1:]}{'' if text.endswith(('.', '?')) else '.'}"

    @property
    def is_passing(self) -> bool:
        """Whether the same request may succeed later."""
        return self.refused.error in ("busy", "unavailable")
