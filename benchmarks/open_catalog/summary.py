"""The table of the catalog's models: how many answer, and why the others do not."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from benchmarks.open_catalog.models import Tried
from benchmarks.open_catalog.rows import Row

REASON_CHARACTERS = 200
AT_HAND = {"mlscope": "part of mlscope", "a package": "in packages", "none": "none are published"}
"""What to say of weights that no host is asked for."""


def summary_of(
    models: Sequence[Tried], rows: Mapping[str, Row], hosts: Mapping[str, str], conditions: str
) -> str:
    """Return the table in Markdown.

    `rows` are those tried so far, by model; `hosts` has why each host of weights does not answer,
    '' where it does; `conditions` names the machine and the versions.
    """
    tried = [rows[model.name] for model in models if model.name in rows]
    answering = sum(row.answers for row in tried)
    counts = (
        f"{answering} of {len(models)} models open and answer one sample of their dataset; "
        f"{len(tried) - answering} do not; {len(models) - len(tried)} were not tried."
    )
    lines = [
        "# Which models of the catalog open and answer",
        "",
        counts,
        "",
        conditions,
        "",
        *_by_framework(models, rows),
        "",
        *_by_place(models, hosts),
        *_failures(tried),
    ]
    if untried := [model.name for model in models if model.name not in rows]:
        lines += ["", "## Models not tried", "", ", ".join(untried)]
    return "\n".join(lines) + "\n"


def _by_framework(models: Sequence[Tried], rows: Mapping[str, Row]) -> Iterable[str]:
    yield "| framework | models | answer | do not | not tried | median (s) | peak memory (MB) |"
    yield "|---|---|---|---|---|---|---|"
    for framework, count in sorted(Counter(model.framework for model in models).items()):
        own = [
            rows[model.name]
            for model in models
            if model.framework == framework and model.name in rows
        ]
        answering = [row for row in own if row.answers]
        seconds = sorted(row.seconds for row in answering)
        median = f"{seconds[len(seconds) // 2]:.1f}" if seconds else "-"
        peak = max((row.peak_bytes for row in answering), default=0) / 1e6
        cells = (framework, count, len(answering), len(own) - len(answering), count - len(own))
        yield f"| {' | '.join(map(str, cells))} | {median} | {peak:.0f} |"


def _by_place(models: Sequence[Tried], hosts: Mapping[str, str]) -> Iterable[str]:
    yield "| published weights | models | from this machine |"
    yield "|---|---|---|"
    for place, count in Counter(model.weights_at for model in models).most_common():
        fault = hosts.get(place)
        reach = AT_HAND.get(place) or (f"not reached: {fault}" if fault else "the host answers")
        reach = reach if place in AT_HAND or fault is not None else "not asked"
        yield f"| {place} | {count} | {reach} |"


def _failures(tried: Iterable[Row]) -> Iterable[str]:
    failed = [row for row in tried if not row.answers]
    if failed:
        yield from ("", "## Models that do not answer", "", "| model | reason |", "|---|---|")
    for row in failed:
        reason = " ".join(row.reason.split()).replace("|", "\\|")[:REASON_CHARACTERS]
        yield f"| {row.model} | {reason} |"
