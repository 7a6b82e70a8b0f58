"""A database that will not do names itself and the way out, whatever it is called."""

import pytest

from mlscope.errors import UnsuitableDatabase, WrongEncoding


@pytest.mark.parametrize("name", ["mlscope", 'a "b"', "x; DROP DATABASE y"])
def test_the_fix_quotes_the_name(name: str) -> None:
    error = WrongEncoding(name, "SQL_ASCII")
    assert isinstance(error, UnsuitableDatabase)
    inner = error.fix.removeprefix('CREATE DATABASE "').partition('_utf8" ENCODING')[0]
    assert inner.replace('""', '"') == name
    assert inner.count('"') % 2 == 0


def test_the_message_holds_what_the_fields_hold() -> None:
    error = WrongEncoding("db", "LATIN1")
    assert (error.database, error.encoding) == ("db", "LATIN1")
    for said in ("db", "LATIN1", "UTF8", error.fix):
        assert said in str(error)
