"""How a setting is declared: a field whose metadata hold its variable and its meaning."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, field
from typing import Any, TypeVar

from mlscope.settings.errors import InvalidSetting, NotParsed
from mlscope.settings.values import Parse

_T = TypeVar("_T")


def setting(variable: str, parse: Parse, default: _T, meaning: str) -> _T:
    """Declare a field: MLSCOPE_`variable`, which `parse` reads, its `default` and its `meaning`."""
    return field(default=default, metadata=_metadata(variable, parse, meaning))


def made_setting(variable: str, parse: Parse, make: Callable[[], _T], meaning: str) -> _T:
    """Declare a field whose default depends on the machine or must not be shared.

    `make` returns the default; `variable`, `parse` and `meaning` are as in `setting`.
    """
    return field(default_factory=make, metadata=_metadata(variable, parse, meaning))


def _metadata(variable: str, parse: Parse, meaning: str) -> dict[str, Any]:
    return {"variable": f"MLSCOPE_{variable}", "parse": parse, "meaning": meaning}


def values_in(environ: Mapping[str, str], declared_fields: Iterable[Field[Any]]) -> dict[str, Any]:
    """Return the values that variables of `environ` give to the `declared_fields`, by name.

    An empty variable counts as unset. Raises InvalidSetting, which names the variable.
    """
    values: dict[str, Any] = {}
    for declared in declared_fields:
        variable = declared.metadata["variable"]
        text = environ.get(variable, "").strip()
        if not text:
            continue
        try:
            values[declared.name] = declared.metadata["parse"](text)
        except NotParsed as unusable:
            raise InvalidSetting(variable, text, str(unusable)) from None
    return values
