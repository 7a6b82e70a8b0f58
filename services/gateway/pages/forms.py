"""A search form as a view: text fields and lists to choose from. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Field:
    """A text field; `name` is its parameter in the address."""

    name: str
    label: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """A list of `values`, of which `value` is selected; '' stands for any."""

    name: str
    label: str
    value: str
    values: Sequence[str]


@dataclass(frozen=True, slots=True)
class SearchForm:
    """A form that sends its fields as a query to the address `action`."""

    action: str
    texts: Sequence[Field]
    choices: Sequence[Choice] = ()
    #: parameters that the form sends as they are
    hidden_fields: Sequence[tuple[str, str]] = ()
