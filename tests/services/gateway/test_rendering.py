"""Templates: texts stay texts, the frame of every page, and the values that they show."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.request import Refused
from services.gateway import rendering
from services.gateway.pages.login_and_error import ErrorView, LoginView
from services.gateway.rendering import environment, html_of, label_of

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
    template = environment().from_string('<p title="{{ title }}">{{ text }}</p>')
    reader = _Reader(template.render(text=text, title=title))
    assert (reader.tags, reader.text) == (["p"], text)
    assert reader.attributes == {"title": title}


def test_the_navigation_has_the_pages_that_exist_and_marks_its_own() -> None:
    html = html_of(LoginView(), {"/evaluations", "/models"}, "/models/tiny/1.0.0")
    assert '<a href="/models" aria-current="page">Models</a>' in html
    assert '<a href="/evaluations">Evaluations</a>' in html
    assert 'href="/new"' not in html


def test_every_page_can_be_skipped_into_and_has_a_theme() -> None:
    html = html_of(LoginView())
    assert html.startswith("<!doctype html>\n<html")
    assert '<a class="skip" href="#main">' in html
    assert 'id="theme"' in html
    assert html.index("theme.js") < html.index("tokens.css")


def test_the_login_posts_a_password() -> None:
    html = html_of(LoginView("That is not the token."))
    assert 'method="post"' in html
    assert 'type="password"' in html
    assert "That is not the token." in html


def test_an_error_says_what_and_where_to_go() -> None:
    html = html_of(ErrorView(Refused(error="unknown", message="no <b>")))
    assert "<h1>Not found</h1>" in html
    assert "No &lt;b&gt;." in html
    assert "Try again" not in html
    assert 'href="/evaluations"' in html
    field = Refused(error="malformed", message="label: wrong", field="label")
    assert "<p>label: wrong.</p>" in html_of(ErrorView(field))
    away = html_of(ErrorView(Refused(error="unavailable", message="the scheduler is away")))
    assert "Try again" in away
    assert "mlscope status" in away


def test_quantities_are_shown_with_units_and_intervals() -> None:
    template = environment().from_string(
        "{{ 5120000 | duration }}, {{ 3200000 | bytes }}, {{ (5e6, 4e6, 6e6) | interval('ns') }}, "
        "{{ 12.5 | rate }}, {{ 0.125 | share }}, {{ 5000 | shown('ns') }}, {{ 'L2 1 MiB' | shown }}"
    )
    texts = ("5.12 ms", "3.2 MB", "5.00 ms (4.00 … 6.00)", "12.5 /s", "12.5%", "5 µs", "L2 1 MiB")
    joined = (re.sub(r"(?<=\d) (?=[a-zA-Zµ/])", "\N{NO-BREAK SPACE}", text) for text in texts)
    assert template.render() == ", ".join(joined)


def test_no_line_begins_with_the_unit_of_a_number() -> None:
    template = environment().from_string("{{ text | unbroken }}")
    shown = template.render(text="8 cores, 126 GiB: 5.1 ms at 20 samples/s, batch 4 seconds 3 sets")
    assert shown.split(" ") == [
        "8",
        "cores,",
        "126\N{NO-BREAK SPACE}GiB:",
        "5.1\N{NO-BREAK SPACE}ms",
        "at",
        "20\N{NO-BREAK SPACE}samples/s,",
        *["batch", "4", "seconds", "3", "sets"],
    ]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("rate_hz", "rate (Hz)"),
        ("period_s", "period (s)"),
        ("first_gap_ms", "first gap (ms)"),
        ("sample_seed", "sample seed"),
        ("queries", "queries"),
        ("s", "s"),
    ],
)
def test_a_parameter_is_labelled_with_its_unit(name: str, label: str) -> None:
    assert label_of(name) == label


def test_a_tooltip_is_plain_text() -> None:
    templates = Path(rendering.__file__).with_name("templates").rglob("*.html")
    titles = {
        title for path in templates for title in re.findall(r' title="(.*?)"', path.read_text())
    }
    assert len(titles) > 10
    assert [title for title in titles if "`" in title] == []
