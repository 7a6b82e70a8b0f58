"""Conditions of several evaluations: what differs first."""

from schemas.analysis import Column, Table
from services.gateway.pages.comparing.conditions import conditions_of


def table(**cells: object) -> Table:
    """Return a table of conditions with one row."""
    columns = tuple(Column(name=name, type="text") for name in cells)
    return Table(name="conditions", title="", columns=columns, rows=(tuple(cells.values()),))


def test_what_differs_comes_first_and_is_marked() -> None:
    found = conditions_of(
        [
            table(run="r0", device="cpu", options='{"threads": 1}', load_ns=1.0, precision="f32"),
            table(run="r9", device="cpu", options='{"threads": 2}', load_ns=2.0, precision="f32"),
        ]
    )
    (row,) = found.differing
    assert (row.name, list(row.values), list(row.marks)) == (
        "options.threads",
        ["1", "2"],
        [False, True],
    )
    assert [row.name for row in found.measured] == ["load ns"]
    assert found.alike == [("device", "cpu"), ("precision", "f32")]


def test_an_evaluation_without_conditions_has_dashes() -> None:
    found = conditions_of([table(device="cpu"), None])
    assert [list(row.values) for row in found.differing] == [["cpu", "\N{EN DASH}"]]


def test_a_text_that_only_looks_like_a_map_is_a_text() -> None:
    found = conditions_of([table(note="x", cause="{torn"), table(note="y", cause="{whole}")])
    assert [row.name for row in found.differing] == ["cause"]
