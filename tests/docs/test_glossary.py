"""The glossary explains the words that many tables and the command line's choices use."""

import argparse
import re
from collections import Counter
from collections.abc import Iterator

from cli.arguments import build_parser
from services.analyzer.comparisons import COMPARISONS
from services.analyzer.exploring import EXPLORATIONS
from services.analyzer.tables import ANALYSES
from tests.docs.pages import DOCS

_ENTRY = re.compile(r"^(?P<term>\S.*)\n: (?P<meaning>.+(?:\n  .+)*)$", re.MULTILINE)
_MOST_LINES = 2
_LEAST_TABLES = 3
"""Words of columns that fewer tables use are explained by the columns' descriptions alone."""
# Everyday words and statistics, whose columns have descriptions; then formats and shells.
_PLAIN = (
    "calls change cost count first kind latency_queries layer_name max median memory min part "
    "queries ratio result shape share size time times type unit "
    "bash chrome csv fish flamegraph flow hardware json otlp parquet perfetto software speedscope "
    "table words zsh"
)


def glossary() -> dict[str, str]:
    """Return the meaning of each term."""
    text = (DOCS / "glossary.md").read_text("utf-8")
    return {match["term"]: match["meaning"] for match in _ENTRY.finditer(text)}


def column_words() -> set[str]:
    """Return the names that columns of several tables have, without unit and interval."""
    definitions = [
        *(analysis.columns for analysis in ANALYSES),
        *(comparison.columns for comparison in COMPARISONS),
        *(exploration.columns for exploration in EXPLORATIONS),
    ]
    tables = Counter(
        name
        for columns in definitions
        for name in {re.sub(r"_(low|high)$", "", column.name) for column in columns}
    )
    return {name for name, count in tables.items() if count >= _LEAST_TABLES}


def chosen_words(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the values that the command line's arguments choose from."""
    for action in parser._actions:  # argparse lists them nowhere else
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from chosen_words(command)
        else:
            yield from map(str, action.choices or ())


def unexplained() -> set[str]:
    """Return the words of columns and choices that no entry has as a term or in its marks."""
    entries = glossary()
    text = " ".join(entries.values())
    names = [*", ".join(entries).split(", "), *re.findall(r"[`*]([^`*]+)[`*]", text)]
    explained = set(map(_singular, names))
    words = column_words() | set(chosen_words(build_parser()))
    return {word for word in words if _singular(word) not in explained}


def _singular(word: str) -> str:
    return word.lower().replace("_", " ").removesuffix(" bytes").removesuffix("s")


def test_an_entry_has_at_most_two_lines() -> None:
    long = [term for term, text in glossary().items() if text.count("\n") >= _MOST_LINES]
    assert long == []


def test_entries_are_in_order() -> None:
    terms = list(glossary())
    assert terms == sorted(terms, key=str.lower)
    assert len(terms) > 150


def test_words_of_columns_and_choices_are_explained() -> None:
    plain = {_singular(word) for word in _PLAIN.split()}
    assert {_singular(word) for word in unexplained()} == plain
