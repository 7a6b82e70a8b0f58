"""Views of the login page and of an error. Pure."""

from dataclasses import dataclass
from typing import ClassVar

from schemas.request import Refused


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
        return self.refused.error.capitalize()
