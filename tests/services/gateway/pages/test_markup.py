"""HTML by construction: whatever a text holds, it stays a text."""

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from services.gateway.pages.markup import Markup, element, text_of

_TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")))


class _Reader(HTMLParser):
    """Notes tags, attributes and text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: dict[str, str | None] = {}
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.update(attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


@given(_TEXTS, _TEXTS)
def test_texts_and_attributes_come_back_as_they_were(text: str, title: str) -> None:
    reader = _Reader(element("p", text, title=title))
    assert (reader.tags, reader.text) == (["p"], text)
    assert reader.attributes == {"title": title}


def test_markup_is_kept_and_nested_parts_are_joined() -> None:
    inner = element("b", "<")
    assert element("p", [inner, "&"]) == "<p><b>&lt;</b>&amp;</p>"
    assert text_of("<", Markup("<br>")) == "&lt;<br>"


def test_attributes_may_be_absent_bare_or_oddly_named() -> None:
    assert element("a", hidden=True, href=None, open=False) == "<a hidden></a>"
    assert element("p", class_="x", data_run="r0") == '<p class="x" data-run="r0"></p>'


def test_void_elements_have_no_end() -> None:
    assert element("meta", charset="utf-8") == '<meta charset="utf-8">'
