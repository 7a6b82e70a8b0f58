"""SQL by name: every statement of a file is found, described, and said once."""

from pathlib import Path

import pytest

from mlscope.database.statements import read_statements, statements_in

SERVICES = Path(__file__).parents[3] / "services"
TEXT = """-- first --
-- What it does.
SELECT 1;

-- second_one --
-- What it does,
-- in two lines.
SELECT 2
-- a remark
FROM two;
"""


def test_statements_are_found_by_name() -> None:
    assert dict(statements_in(TEXT)) == {
        "first": "SELECT 1",
        "second_one": "SELECT 2\n-- a remark\nFROM two",
    }


def test_a_name_said_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="first occurs twice"):
        statements_in(TEXT + "-- first --\n-- Again.\nSELECT 3;\n")


@pytest.mark.parametrize(
    "path", sorted(SERVICES.glob("*/queries.sql")), ids=lambda path: path.parent.name
)
def test_every_shipped_statement_is_described(path: Path) -> None:
    names = [line for line in path.read_text().splitlines() if line.endswith(" --")]
    assert len(read_statements(path)) == len(names)
