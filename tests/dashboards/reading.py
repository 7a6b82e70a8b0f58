"""Grafana's dashboards as this project ships them: their queries, as Grafana would send them."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg

FOLDER = Path(__file__).resolve().parents[2] / "dashboards" / "grafana"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
_TIME_FILTER = re.compile(r"\$__timeFilter\((\w+)\)")
_VARIABLE = re.compile(r"\$\{(\w+):sqlstring\}")


def dashboard(name: str) -> dict[str, Any]:
    """Return a dashboard's document."""
    document: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return document


def targets_of(document: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield title, format and SQL of each query of a dashboard's panels."""
    for panel in document["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["format"], target["rawSql"]


def expanded(query: str, values: Mapping[str, str]) -> str:
    """Return a query with the time range (all) and the variables filled in, as Grafana does it.

    A name without a value is left as it is, which the database refuses.
    """

    def quoted(match: re.Match[str]) -> str:
        name = match[1]
        return "'" + values[name].replace("'", "''") + "'" if name in values else match[0]

    between = r"\1 BETWEEN '2000-01-01T00:00:00Z' AND '2100-01-01T00:00:00Z'"
    return _VARIABLE.sub(quoted, _TIME_FILTER.sub(between, query))


def values_of(document: Mapping[str, Any], session: psycopg.Connection[Any]) -> dict[str, str]:
    """Return the first value of each variable, by their own queries; '' where there is none."""
    values: dict[str, str] = {}
    for variable in document["templating"]["list"]:
        rows = session.execute(expanded(variable["query"], values).encode()).fetchall()
        values[variable["name"]] = str(rows[0][0]) if rows else ""
    return values


def answers_of(name: str, session: psycopg.Connection[Any]) -> dict[str, int]:
    """Run every query of a dashboard; return how many rows each panel has, by its title.

    A series must have a time and, if it has texts, a text that names it.
    """
    document = dashboard(name)
    values = values_of(document, session)
    counts = {}
    for title, form, query in targets_of(document):
        cursor = session.execute(expanded(query, values).encode())
        columns = [(column.name, column.type_code) for column in cursor.description or ()]
        if form == "time_series":
            assert columns[0][0] == "time", title
            assert session.adapters.types[columns[0][1]].name == "timestamptz", title
            assert all(column[0] != "time" for column in columns[1:]), title
        counts[title] = len(cursor.fetchall())
    return counts
