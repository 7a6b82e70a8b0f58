"""Rules that the spans of every recording meet, whichever file they were read from. Pure.

Importers leave out or refuse what they know to go wrong; an altered file can hold anything else.
"""

import json

import polars as pl

from mlscope.importing.recording import MAX_DURATION_NS, MAX_START_NS, MIN_START_NS, Recording
from schemas.batch import SpanKind
from schemas.level import Level

_NUL = r"\\u0000"


def first_problem(recording: Recording) -> str:
    """Return what is wrong with a recording's spans, beginning with a verb; '' where nothing is."""
    spans = recording.spans
    if not spans.height:
        return "holds no span"
    if has_missing_fields(spans):
        return "has a span without a required field"
    level, query, block = pl.col("level"), pl.col("query"), pl.col("block")
    rules = {
        "an unknown level": ~level.is_between(int(Level.APPLICATION), int(max(Level))),
        "an unknown kind": ~pl.col("kind").is_in([int(kind) for kind in SpanKind]),
        "a start out of range": ~pl.col("start_ns").is_between(MIN_START_NS, MAX_START_NS),
        "a duration out of range": ~pl.col("duration_ns").is_between(0, MAX_DURATION_NS),
        # Spans of samples prepared ahead of the clock have neither.
        "a query or block below its range": (query < -1) | (block < pl.min_horizontal(query, 0)),
        "the id of another span": pl.col("span").is_duplicated(),
        "itself as parent": pl.col("parent") == pl.col("span"),
    }
    broken = spans.select(rule.any().alias(name) for name, rule in rules.items())
    for name, is_broken in broken.row(0, named=True).items():
        if is_broken:
            return f"has a span with {name}"
    return ""


def has_missing_fields(spans: pl.DataFrame) -> bool:
    """Say whether a span lacks a field other than `parent` and `attributes`."""
    return bool(spans.select(pl.exclude("parent", "attributes").has_nulls()).to_numpy().any())


def without_nul(recording: Recording) -> pl.DataFrame:
    """Return the spans without NUL characters in attributes, which databases refuse."""
    clean = pl.col("attributes").str.replace_all(_NUL, r"\ufffd", literal=False)
    return recording.spans.with_columns(clean)


def is_attributes(text: str) -> bool:
    """Say whether a text can be attributes: a JSON object without NaN and infinity."""

    def refuse(constant: str) -> float:
        raise ValueError(constant)

    try:
        return isinstance(json.loads(text, parse_constant=refuse), dict)
    except (ValueError, RecursionError):
        return False
