"""Results as HTML for notebooks: a table, the verdicts of all tables, an evaluation. Pure.

Jupyter shows what `_repr_html_` returns. Every text is escaped; colours are the notebook's own.
"""

from collections.abc import Iterable, Sequence
from html import escape

from mlscope.client.brief import brief
from mlscope.quantities import estimated, heads_of, shown, unit_of
from schemas.analysis import Estimate, Table
from schemas.status import EvaluationStatus

MOST_ROWS = 50


def table_html(table: Table) -> str:
    """Return a table with the columns that say most, its verdict and its caveats."""
    short = brief(table)
    named = heads_of([(column.name, column.unit) for column in short.columns])
    heads = "".join(f"<th>{escape(head)}</th>" for head in named)
    units = [unit_of(column) for column in short.columns]
    texts = (
        [shown(value, unit) for value, unit in zip(row, units, strict=True)]
        for row in short.rows[:MOST_ROWS]
    )
    rows = ("".join(f"<td>{escape(text)}</td>" for text in row) for row in texts)
    body = "".join(f"<tr>{cells}</tr>" for cells in rows)
    caveats = "".join(f"<li>{escape(caveat)}</li>" for caveat in table.caveats)
    title = f"{table.id} {table.title}".strip()
    return (
        f"<p><b>{escape(title)}</b>. {escape(table.verdict)}</p>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
        f"{_left_out(len(short.rows))}{f'<ul>{caveats}</ul>' if caveats else ''}"
    )


def verdicts_html(tables: Iterable[Table]) -> str:
    """Return the name, the number of rows and the verdict of each table."""
    lines = "".join(
        f"<tr><td>{escape(table.id)}</td><td>{escape(table.name)}</td><td>{len(table.rows)}</td>"
        f'<td style="text-align: left">{escape(table.verdict)}</td></tr>'
        for table in tables
    )
    heads = "<th></th><th>table</th><th>rows</th><th>verdict</th>"
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"


def evaluation_html(status: EvaluationStatus) -> str:
    """Return an evaluation's model, state and runs, with a link to its page."""
    named: Sequence[str] = (status.model, status.framework, status.device, status.state)
    parts = [_linked(status), *(escape(text) for text in named if text)]
    cause = f"<p>{escape(status.cause)}</p>" if status.cause else ""
    runs = "".join(
        f"<tr><td>{escape(run.run)}</td><td>{escape(run.agent)}</td><td>{escape(run.state)}</td>"
        f"<td>{run.answered}</td><td>{run.failed_queries}</td><td>{run.spans}</td></tr>"
        for run in status.runs[:MOST_ROWS]
    )
    heads = "".join(
        f"<th>{head}</th>" for head in ("run", "agent", "state", "answered", "failed", "spans")
    )
    listed = f"<table><thead><tr>{heads}</tr></thead><tbody>{runs}</tbody></table>" if runs else ""
    return f"<p>{' · '.join(parts)}</p>{cause}{listed}{_left_out(len(status.runs))}"


def evaluations_html(statuses: Sequence[EvaluationStatus]) -> str:
    """Return evaluations with their figures, a load a row, and links to their pages."""
    heads = ("evaluation", "model", "framework", "state", "load", "latency", "samples/s", "agent")
    rows = [row for status in statuses for row in _rows_of(status)]
    body = "".join(
        f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows[:MOST_ROWS]
    )
    head = "".join(f"<th>{name}</th>" for name in heads)
    listed = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"{listed}{_left_out(len(rows))}" if rows else "<p>No evaluation fits.</p>"


def _rows_of(status: EvaluationStatus) -> list[tuple[str, ...]]:
    """Return the rows of an evaluation, a load each, their cells escaped."""
    shared = (_linked(status), *map(escape, (status.model, status.framework, status.state)))
    rows = [
        (
            f"{headline.scenario}, batch {headline.batch_size}",
            _figure(headline.latency_ns, "ns"),
            _figure(headline.samples_per_s, "1/s"),
            headline.agent,
        )
        for headline in status.headlines
    ]
    return [(*shared, *map(escape, row)) for row in rows or [("", "", "", "")]]


def _figure(estimate: Estimate | None, unit: str) -> str:
    if estimate is None:
        return ""
    return estimated(estimate.value, estimate.low, estimate.high, unit)


def _linked(status: EvaluationStatus) -> str:
    name = escape(status.evaluation)
    if not status.address.startswith(("http://", "https://")):
        return name
    return f'<a href="{escape(status.address)}">{name}</a>'


def _left_out(count: int) -> str:
    return f"<p>The first {MOST_ROWS} of {count} rows.</p>" if count > MOST_ROWS else ""
