"""Views of analyses: one migration a wording, safe against odd descriptions."""

from dataclasses import replace

import psycopg

from services.analyzer.building.table import float_column, text_column
from services.analyzer.tables import ANALYSES
from services.analyzer.views import migrations_of, view_of

_ROWS = "CREATE TABLE analysis_row (evaluation text, name text, ordinal int, cells jsonb)"
_ODD = replace(
    ANALYSES[0],
    name="odd",
    title="It's odd",
    columns=(
        text_column("order", "It's '; DROP TABLE analysis_row; --."),
        float_column("t", "Time."),
    ),
)


def test_the_same_wording_is_the_same_migration_and_another_is_not() -> None:
    (one,), (again,) = migrations_of(ANALYSES), migrations_of(ANALYSES)
    assert one == again
    (other,) = migrations_of([*ANALYSES, _ODD])
    assert other.version != one.version


def test_descriptions_and_names_are_quoted(database_url: str) -> None:
    with psycopg.connect(database_url) as session:
        session.execute(_ROWS)
        for _ in range(2):
            session.execute(view_of(_ODD).encode())
        session.execute(
            """INSERT INTO analysis_row VALUES ('e1', 'odd', 0, '{"order": "a", "t": 1.5}'),
            ('e1', 'other', 0, '{}')"""
        )
        found = session.execute('SELECT evaluation, "order", t FROM analysis_odd').fetchall()
        told = session.execute(
            "SELECT col_description('analysis_odd'::regclass, 4),"
            " obj_description('analysis_odd'::regclass)"
        ).fetchall()
    assert found == [("e1", "a", 1.5)]
    assert told[0][0] == "Time. [ns]"
    assert told[0][1].startswith("It's odd. ")
