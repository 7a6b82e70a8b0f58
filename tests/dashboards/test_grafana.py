"""Grafana's dashboards: documents that import, and queries that run as a role that only reads."""

import itertools
import re
from typing import Any

import psycopg
import pytest
from psycopg import errors

from tests.dashboards.reading import NAMES, answers_of, dashboard, targets_of


@pytest.mark.parametrize("name", NAMES)
def test_a_dashboard_imports_with_a_data_source_of_the_user(name: str) -> None:
    document = dashboard(name)
    (source,) = document["__inputs"]
    assert (source["type"], source["pluginId"]) == ("datasource", "grafana-postgresql-datasource")
    uid = f"${{{source['name']}}}"
    panels = document["panels"]
    assert document["id"] is None
    assert document["uid"] == f"mlscope-{name}"
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({panel["title"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["type"] in ("timeseries", "table", "stat", "histogram")
        assert {each["datasource"]["uid"] for each in (panel, *panel["targets"])} == {uid}
        place = panel["gridPos"]
        assert 0 <= place["x"] < place["x"] + place["w"] <= 24
    for one, other in itertools.combinations([panel["gridPos"] for panel in panels], 2):
        is_beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        is_below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert is_beside or is_below
    defined = {variable["name"] for variable in document["templating"]["list"]}
    queries = [query for _, _, query in targets_of(document)]
    assert set(re.findall(r"\$\{(\w+)", " ".join(queries))) == defined
    assert not re.search(r"\$(?!__timeFilter\()(?!\{\w+:sqlstring\})", " ".join(queries))


@pytest.mark.parametrize("name", NAMES)
def test_every_query_runs_as_the_role_that_only_reads(
    reader: psycopg.Connection[Any], name: str
) -> None:
    counts = answers_of(name, reader)
    filled = {
        "fleet": {"Evaluations", "Runs ended, by agent", "Agents", "Rows stored a minute, by kind"},
        "evaluation": {"Runs", "Latency by second", "Latency", "Headline figures", "Verdicts"},
        "history": {"Latency of a query", "Samples answered a second", "Measurements"},
        "device": {"Longest kernels"},
    }[name]
    assert {title for title in filled if not counts[title]} == set()


def test_the_role_changes_nothing(reader: psycopg.Connection[Any]) -> None:
    with pytest.raises(errors.ReadOnlySqlTransaction):
        reader.execute("CREATE TEMPORARY TABLE mine (n int4)")
    reader.execute("SET default_transaction_read_only = off")
    with pytest.raises(errors.InsufficientPrivilege):
        reader.execute("DELETE FROM run")
