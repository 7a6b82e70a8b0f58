"""The table of contents: every fact and command there is, under its own name."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import schemas
from schemas.encoding.message_index import COMMANDS, FACTS
from schemas.message import Command, Fact, Message

_PARTS = ("ScenarioChoice", "SystemNeed", "Blocks")
"""Parts of commands: as strict as those, and sent by nobody alone."""


def defined() -> Iterator[type[Message]]:
    """Yield every message of every module of the contract."""
    folder = Path(schemas.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        module = import_module(
            ".".join(("schemas", *path.relative_to(folder).with_suffix("").parts))
        )
        for value in vars(module).values():
            is_class = isinstance(value, type) and value.__module__ == module.__name__
            if is_class and issubclass(value, Message):
                yield value


def test_no_fact_is_forgotten() -> None:
    facts = {kind for kind in defined() if issubclass(kind, Fact) and kind is not Fact}
    assert facts == set(FACTS.values())


def test_no_command_is_forgotten() -> None:
    kinds = {kind for kind in defined() if issubclass(kind, Command) and kind is not Command}
    assert {kind for kind in kinds if kind.__name__ not in _PARTS} == set(COMMANDS.values())


def test_names_are_those_of_the_messages() -> None:
    assert all(name == kind.schema_name() for name, kind in FACTS.items())
    assert all(verb == kind.verb for verb, kind in COMMANDS.items())


def test_a_fact_is_in_the_past_tense() -> None:
    ends = ("ed", "ready", "left", "lost", "withdrawn", "incomplete")
    assert [name for name in FACTS if not name.endswith(ends)] == []
