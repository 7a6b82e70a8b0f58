"""Grafana's dashboards: documents that import, and queries that run as a role that only reads."""

import itertools
import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from psycopg import errors, sql
from psycopg.conninfo import make_conninfo

from schemas.evaluation import MeasuredRun
from services.analyzer.analysis import analyze
from services.analyzer.store import Store, migrate
from services.collector import store as collector
from services.collector.runs import run_row
from services.collector.saving import prepared_of
from tests.dashboards.reading import FOLDER, NAMES, answers_of, dashboard, targets_of
from tests.services.collector.builders import (
    REQUESTED_NS,
    a_completion,
    a_linked_trace,
    a_plan,
    a_trace,
    some_queries,
)

MEASURED = MeasuredRun(run="r0", attempt=1, end="completed", agent="a1")


@pytest.fixture
def reader(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    """Lend a session of the role of reader.sql in a database that holds one evaluation."""
    collector.migrate(database_url)
    migrate(database_url)
    with closing(collector.Store(database_url)) as rows:
        batches = (a_trace(count=1), a_linked_trace(1), some_queries())
        rows.save([prepared_of(batch, REQUESTED_NS) for batch in batches])
        rows.end_run(run_row(a_completion(), a_plan().plan, REQUESTED_NS, "c0"))
    with closing(Store(database_url)) as store:
        store.write("e1", analyze(store.read("e1", [MEASURED])))
    script = (FOLDER / "reader.sql").read_text()
    with psycopg.connect(database_url, autocommit=True) as owner:
        user = sql.Identifier(owner.info.user).as_string(owner)
        owner.execute(script.replace(":'password'", "'secret'").replace(':"owner"', user).encode())
        address = make_conninfo(database_url, user="mlscope_reader", password="secret")
        with psycopg.connect(address, autocommit=True) as session:
            yield session
        owner.execute("DROP OWNED BY mlscope_reader")
        owner.execute("DROP ROLE mlscope_reader")


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
        reader.execute("DELETE FROM run")
    reader.execute("SET default_transaction_read_only = off")
    with pytest.raises(errors.InsufficientPrivilege):
        reader.execute("DELETE FROM run")
