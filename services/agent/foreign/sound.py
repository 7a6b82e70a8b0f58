"""What holds of every recording, whichever file it was read from. Pure.

Importers leave out or refuse what they know to go wrong; an altered file can say anything else.
"""

import json
from collections.abc import Iterator

import polars as pl

from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.foreign.recording import EARLIEST_NS, LATEST_NS, LONGEST_NS, Recording

_NUL = r"\\u0000"


def wrong_in(recording: Recording) -> str:
    """Return what is wrong with a recording's spans, '' where nothing is."""
    return next(_wrongs(recording), "")


def _wrongs(recording: Recording) -> Iterator[str]:
    spans = recording.spans
    if not spans.height:
        yield "holds no span"
    if spans.select(pl.exclude("parent", "attributes").has_nulls()).to_numpy().any():
        yield "has a span that lacks a field"
    rules = {
        "an unknown level": ~pl.col("level").is_between(int(Level.APPLICATION), int(max(Level))),
        "an unknown kind": ~pl.col("kind").is_in([int(each) for each in SpanKind]),
        "a time that is none": ~pl.col("start_ns").is_between(EARLIEST_NS, LATEST_NS),
        "a duration that is none": ~pl.col("duration_ns").is_between(0, LONGEST_NS),
        "a query or block below none": (pl.col("query") < -1) | (pl.col("block") < 0),
        "a number that others have": pl.col("span").is_duplicated(),
        "itself as parent": pl.col("parent") == pl.col("span"),
    }
    found = spans.select(rule.any().alias(name) for name, rule in rules.items())
    for name, is_so in found.row(0, named=True).items():
        if is_so:
            yield f"has a span with {name}"


def plain(recording: Recording) -> pl.DataFrame:
    """Return the spans with attributes that databases take, which refuse NUL characters."""
    clean = pl.col("attributes").str.replace_all(_NUL, r"\ufffd", literal=False)
    return recording.spans.with_columns(clean)


def is_attributes(text: str) -> bool:
    """Say whether a text is what attributes are: a JSON object, without NaN and infinity."""
    try:
        return isinstance(json.loads(text, parse_constant=_refused), dict)
    except (ValueError, RecursionError):
        return False


def _refused(name: str) -> float:
    raise ValueError(name)
