"""A module that is imported later: with the first name asked of it, or its tests are skipped."""

import sys

import pytest

from tests.importing_later import imported_later


def test_it_is_imported_with_the_first_public_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    colours = imported_later("colorsys")
    assert not hasattr(colours, "__test__")
    assert "colorsys" not in sys.modules
    assert colours.rgb_to_hsv(1.0, 1.0, 1.0) == (0.0, 0.0, 1.0)
    assert "colorsys" in sys.modules


def test_tests_of_a_module_that_is_absent_are_skipped() -> None:
    with pytest.raises(pytest.skip.Exception, match="nowhere is not installed"):
        imported_later("nowhere.at_all")
