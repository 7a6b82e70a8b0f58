"""Modules that take seconds to import, imported by the tests that use them.

Every worker collects every test and runs some: the others' frameworks would cost it seconds of
processor time and hundreds of megabytes.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest


class _Later:
    """A module that is imported when one of its public names is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        # pytest looks for names of its own in whatever a test module holds.
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        return getattr(import_module(self._name), attribute)


def imported_later(name: str) -> Any:
    """Return the module called `name`; skip the tests of a module that calls it if it is absent."""
    package = name.partition(".")[0]
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed", allow_module_level=True)
    return _Later(name)
