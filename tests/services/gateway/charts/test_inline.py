"""Drawings as parts of a page: their ids are their own, and few of their tags are searched."""

import re

import pytest

from services.gateway.charts import inline

_MARK = (
    '<path aria-label="a: 1; b > 2; id=" role="graphics-symbol" aria-roledescription="point" '
    'd="M1,2L3,4" stroke="url(#shade)"/>'
)
_PLAIN = _MARK.replace(' stroke="url(#shade)"', "")
_HEAD = '<svg class="marks" width="20" height="10.5" viewBox="0 0 20 10.5">'


class CountedPattern:
    """A pattern that counts the characters in which it replaces."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        """Replace as `pattern` does."""
        self._pattern = pattern
        self.searched = 0

    def sub(self, replacement: str, text: str) -> str:
        """Return `text` with its matches replaced by `replacement`."""
        self.searched += len(text)
        return self._pattern.sub(replacement, text)


def test_a_drawing_has_its_own_ids_and_no_descriptions() -> None:
    svg = f'{_HEAD}<clipPath id="shade"></clipPath>{_MARK}<text>id="shade"</text></svg>'
    assert inline.inlined(svg, "A & B", "own") == (
        '<svg class="drawing own" role="img" aria-label="A &amp; B" width="20" height="10.5" '
        'viewBox="0 0 20 10.5"><clipPath id="own-shade"></clipPath>'
        '<path d="M1,2L3,4" stroke="url(#own-shade)"/><text>id="shade"</text></svg>'
    )


def test_links_of_marks_lead_within_the_page_and_are_for_pointers() -> None:
    link = '<a xlink:href="http://vega/?layer=1&amp;id=url(#x)">'
    svg = f"{_HEAD}{link}{_PLAIN}</a></svg>"
    figure = inline.inlined(svg, "A", "own")
    assert 'role="group"' in figure
    own = '<a href="?layer=1&amp;id=url(#own-x)" tabindex="-1" aria-hidden="true">'
    assert f'{own}<path d="M1,2L3,4"/></a>' in figure


def test_tags_without_ids_are_not_searched_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = CountedPattern(inline._ID)
    monkeypatch.setattr(inline, "_ID", counted)
    inline.inlined(f"{_HEAD}{_PLAIN * 1000}{_MARK}</svg>", "A", "own")
    assert 0 < counted.searched < len(_MARK)
