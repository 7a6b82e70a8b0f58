"""A table's chart on a terminal: a bar for each row, from the fields that its chart draws. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mlscope.quantities import shown, unit_of
from schemas.analysis import Table

MOST_BARS = 40
_LABEL_WIDTH = 40
_VALUE_WIDTH = 12
_MARKS = {"bar": 0, "point": 1, "circle": 1, "tick": 1}
"""Marks whose values are worth a bar, the best first; a line from least to most is not."""
_EIGHTHS = " ▏▎▍▌▋▊▉"


class Fields(NamedTuple):
    """The columns that a bar is named after, and the one that it is as long as."""

    label: str
    value: str


def bar_lines(table: Table, width: int) -> list[str]:
    """Return a `table` as bars that fit into `width` columns; without a chart only a note."""
    fields = fields_of(table.chart or {})
    names = [column.name for column in table.columns]
    if fields is None or fields.label not in names or fields.value not in names:
        return [f"{table.name}: no bars to draw; its verdict: {table.verdict}"]
    value_at = names.index(fields.value)
    unit = unit_of(table.columns[value_at])
    rows = [row for row in table.rows if isinstance(row[value_at], int | float)]
    drawn = rows[:MOST_BARS]
    places = [
        names.index(name)
        for name in dict.fromkeys(("run", fields.label, "name"))
        if name in names and (name != "run" or _differs(drawn, names.index(name)))
    ] or [names.index(fields.label)]
    labels = [" ".join(shown(row[place]) for place in places)[:_LABEL_WIDTH] for row in drawn]
    label_width = max(map(len, labels), default=0)
    room = max(width - label_width - _VALUE_WIDTH - 4, 10)
    longest = max((row[value_at] for row in drawn), default=0) or 1
    head = table.title if table.id in table.title else f"{table.id} {table.title}"
    lines = [f"{head}: {fields.value}"]
    for label, row in zip(labels, drawn, strict=True):
        full_cells, eighths = divmod(round(max(row[value_at], 0) / longest * room * 8), 8)
        bar = "█" * full_cells + (_EIGHTHS[eighths] if eighths else "")
        lines.append(f"{label:<{label_width}}  {shown(row[value_at], unit):>{_VALUE_WIDTH}}  {bar}")
    if len(rows) > MOST_BARS:
        lines.append(f"the first {MOST_BARS} of {len(rows)} rows")
    return lines


def fields_of(spec: Mapping[str, Any]) -> Fields | None:
    """Return the fields of the bars, else of other marks, that a Vega-Lite specification draws."""
    ranked = sorted(_encodings(spec), key=lambda drawn: _MARKS.get(drawn[0], len(_MARKS)))
    for _, encoding in ranked:
        channels = [encoding[name] for name in ("x", "y") if name in encoding]
        values = [channel["field"] for channel in channels if _is_value(channel)]
        labels = [
            channel["field"]
            for channel in channels
            if "field" in channel and not _is_value(channel)
        ]
        if values and labels:
            return Fields(labels[0], values[0])
    return None


def _differs(rows: Sequence[tuple[Any, ...]], place: int) -> bool:
    return len({row[place] for row in rows}) > 1


def _is_value(channel: Mapping[str, Any]) -> bool:
    return "field" in channel and channel.get("type") == "quantitative"


def _encodings(spec: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the mark and the encoding of every part of a specification."""
    if isinstance(spec, list):
        for part in spec:
            yield from _encodings(part)
    if not isinstance(spec, Mapping):
        return
    if isinstance(spec.get("encoding"), Mapping):
        mark = spec.get("mark", "")
        yield str(mark.get("type") if isinstance(mark, Mapping) else mark), spec["encoding"]
    for name in ("layer", "spec", "vconcat", "hconcat", "concat"):
        yield from _encodings(spec.get(name))
