"""Views that people made on those of mlscope: upgrades keep them, or say which is in the way."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors

from cli import exits
from cli.failures import Failure, explain
from mlscope.database.migrations import apply
from mlscope.errors import OwnViewInTheWay
from tests.dashboards.reading_role import migrated, script

NAMED = re.compile(r"(?:^|[:;] )(view|materialized view|function) (\S+) (?:depends on|has)")


@pytest.fixture
def owner(database_url: str, reader: psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any]]:
    """Lend an owner's session in a database with a view of its own, `mine`, on one for readers."""
    with psycopg.connect(database_url, autocommit=True) as session:
        session.execute("CREATE VIEW mine AS SELECT evaluation FROM mlscope_reader.run")
        session.execute("GRANT SELECT ON mine TO mlscope_reader")
        yield session


def _apply(database_url: str, folder: Path, sql: str) -> None:
    (folder / "0001_more.sql").write_text(sql)
    apply(database_url, "test", folder)


def _follow(owner: psycopg.Connection[Any], advice: str) -> list[str]:
    """Drop what is in the way as the `advice` says; return the names in the order dropped."""
    for part in ("last named first", "DROP VIEW", "DROP MATERIALIZED VIEW", "DROP FUNCTION"):
        assert part in advice
    named = {name: kind for kind, name in reversed(NAMED.findall(advice))}
    yours = [name for name in named if not _is_of_mlscope(owner, name)]
    for name in yours:
        if name.isidentifier():
            owner.execute(f"DROP VIEW IF EXISTS mlscope_reader.{name}".encode())
        owner.execute(f"DROP {named[name]} {name}".encode())
    return yours


def _is_of_mlscope(owner: psycopg.Connection[Any], name: str) -> bool:
    schema, _, own = name.rpartition(".")
    row = owner.execute("SELECT to_regclass(%s) IS NOT NULL", (f"public.{own}",)).fetchone()
    return schema == "mlscope_reader" and row == (True,)


def test_an_upgrade_keeps_a_view_of_one_s_own(
    owner: psycopg.Connection[Any],
    reader: psycopg.Connection[Any],
    database_url: str,
    tmp_path: Path,
) -> None:
    """Also one on trends, one on another's, and one among mlscope's; what is new is shown."""
    owner.execute("CREATE VIEW trends AS SELECT runs FROM mlscope_reader.trend")
    owner.execute("CREATE VIEW of_mine AS TABLE mine")
    owner.execute("CREATE VIEW mlscope_reader.beside AS SELECT 1 AS n")
    owner.execute("DELETE FROM schema_version WHERE version LIKE 'views-%'")
    migrated(database_url)
    _apply(database_url, tmp_path, "ALTER TABLE run ADD COLUMN note text")
    assert owner.execute("TABLE of_mine").fetchall() == [("e1",)]
    assert owner.execute("TABLE trends").fetchall() == [(1,)]
    assert owner.execute("TABLE mlscope_reader.beside").fetchall() == [(1,)]
    assert reader.execute("TABLE mine").fetchall() == [("e1",)]
    assert reader.execute("SELECT evaluation, note FROM run").fetchall() == [("e1", None)]
    assert len(reader.execute("SELECT 1 FROM analysis_latency").fetchall()) > 0


@pytest.mark.parametrize(
    ("own", "change"),
    [
        ("mlscope_reader.trend", "DROP VIEW trend; CREATE VIEW trend AS SELECT 1 AS runs"),
        ("analysis_latency", "DROP VIEW analysis_latency"),
        ("mlscope_reader.run", "ALTER TABLE run ALTER level_note TYPE varchar"),
        ("mlscope_reader.run", "ALTER TABLE run RENAME level_note TO other"),
    ],
)
def test_a_view_in_the_way_is_named_and_the_fix_told_works(
    owner: psycopg.Connection[Any],
    reader: psycopg.Connection[Any],
    database_url: str,
    tmp_path: Path,
    own: str,
    change: str,
) -> None:
    """All is as before until it is dropped."""
    owner.execute(f"CREATE VIEW another AS TABLE {own}".encode())
    with pytest.raises(OwnViewInTheWay) as refused:
        _apply(database_url, tmp_path, change)
    advice = str(refused.value)
    for part in ("another", "pg_get_viewdef", "This step changed nothing"):
        assert part in advice
    assert explain(refused.value) == Failure(exits.FAILED, str(refused.value))
    assert owner.execute("SELECT 1 FROM schema_version WHERE component = 'test'").fetchall() == []
    assert reader.execute("TABLE mine").fetchall() == [("e1",)]
    assert reader.execute("SELECT level_note IS NULL FROM run").rowcount == 1
    assert "another" in _follow(owner, advice)
    _apply(database_url, tmp_path, change)
    assert reader.execute("SELECT evaluation FROM run").fetchall() == [("e1",)]


@pytest.mark.parametrize(
    ("own", "dropped"),
    [
        (
            # The last is named twice alike: as of what depends on a run, and on a span.
            """CREATE VIEW third AS SELECT evaluation FROM mlscope_reader.spans;
            CREATE VIEW first AS SELECT evaluation FROM mlscope_reader.run UNION TABLE third;
            CREATE MATERIALIZED VIEW second AS TABLE first""",
            {"first", "second", "third", "mine"},
        ),
        ("CREATE VIEW mlscope_reader.beside AS TABLE mine", {"mlscope_reader.beside", "mine"}),
        (
            "CREATE FUNCTION told() RETURNS SETOF mine LANGUAGE sql AS 'TABLE mine'",
            {"told()", "mine"},
        ),
    ],
    ids=["nested", "beside", "function"],
)
@pytest.mark.parametrize("is_shown", [False, True], ids=["", "shown"])
def test_the_order_told_drops_one_by_one(
    owner: psycopg.Connection[Any],
    database_url: str,
    tmp_path: Path,
    own: str,
    dropped: set[str],
    is_shown: bool,
) -> None:
    """Also where an upgrade has made views for readers of one's own ones."""
    owner.execute(own.encode())
    if is_shown:
        (tmp_path / "0000_less.sql").write_text("CREATE TABLE less (n int4)")
        apply(database_url, "test", tmp_path)
    change = "ALTER TABLE run RENAME level_note TO other"
    with pytest.raises(OwnViewInTheWay) as refused:
        _apply(database_url, tmp_path, change)
    assert set(_follow(owner, str(refused.value))) == dropped
    _apply(database_url, tmp_path, change)


@pytest.mark.parametrize(
    "own",
    [
        "VIEW mlscope_reader.later AS SELECT 1::int8 AS run_key",
        "VIEW mlscope_reader.later AS SELECT 1 AS n",
        "MATERIALIZED VIEW mlscope_reader.later AS SELECT 1 AS n",
    ],
)
@pytest.mark.parametrize("key", ["run_key", "n"])
def test_a_view_with_the_name_of_a_later_table_is_in_the_way(
    owner: psycopg.Connection[Any], database_url: str, tmp_path: Path, own: str, key: str
) -> None:
    """It is not replaced, whatever its columns are, and not dropped with those of mlscope."""
    owner.execute(f"CREATE {own}".encode())
    change = f"CREATE TABLE later ({key} int8)"
    with pytest.raises(OwnViewInTheWay, match=r"view mlscope_reader\.later has the name"):
        _apply(database_url, tmp_path, change)
    assert len(owner.execute("TABLE mlscope_reader.later").fetchall()) == 1
    owner.execute(f"DROP {own.partition(' AS ')[0]}".encode())
    _apply(database_url, tmp_path, change)


def test_an_upgrade_grants_no_view_that_somebody_put_beside(
    owner: psycopg.Connection[Any],
    reader: psycopg.Connection[Any],
    database_url: str,
    tmp_path: Path,
) -> None:
    """It may show private rows. Nor does reader.sql."""
    owner.execute("CREATE VIEW mlscope_reader.everything AS SELECT evaluation FROM public.run")
    _apply(database_url, tmp_path, "CREATE TABLE more (run_key int8)")
    with pytest.raises(errors.InsufficientPrivilege):
        reader.execute("TABLE everything")
    owner.execute(script(owner))
    with pytest.raises(errors.InsufficientPrivilege):
        reader.execute("TABLE everything")
    assert reader.execute("TABLE more").fetchall() == []


def test_another_error_of_a_migration_blames_no_view(
    reader: psycopg.Connection[Any], database_url: str, tmp_path: Path
) -> None:
    own = "CREATE TABLE odd (n int4); CREATE VIEW odder AS TABLE odd"
    with pytest.raises(errors.FeatureNotSupported):
        _apply(database_url, tmp_path, f"{own}; ALTER TABLE odd ALTER n TYPE int8")
