"""A database that will not do names itself and the way out, whatever it is called."""

import pytest

from mlscope.errors import OwnViewInTheWay, UnsuitableDatabase, WrongEncoding


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


def test_what_several_views_hold_back_is_named_after_them_all() -> None:
    """Who drops the last named first drops none on which another depends."""
    told = str(OwnViewInTheWay("a on run\nb on a\nc on spans\na on c\nb on a"))
    assert "a on run; c on spans; a on c; b on a." in told


def test_views_beside_mlscope_s_own_may_be_dropped_too() -> None:
    told = str(OwnViewInTheWay("view mlscope_reader.beside depends on view mlscope_reader.run"))
    assert "each of them that is yours" in told
    assert "nothing was changed" not in told
