"""The frame of every page, the login and trouble."""

from schemas.request import Refused
from services.gateway.pages.frame import error_page, login_page, page, pairs
from services.gateway.pages.markup import element


def test_a_page_is_a_document_that_loads_its_script_when_it_needs_one() -> None:
    plain, live = page("T", "body"), page("T", "body", script=True)
    assert plain.startswith("<!doctype html>\n<html")
    assert "<title>T · mlscope</title>" in plain
    assert "/static/live.js" not in plain
    assert "/static/live.js" in live


def test_the_login_posts_a_password() -> None:
    shown = login_page("That is not the token.")
    assert 'method="post"' in shown
    assert 'type="password"' in shown
    assert "That is not the token." in shown


def test_trouble_says_what_and_where_to_go() -> None:
    shown = error_page(Refused(error="unknown", message="no <b>"))
    assert "<h1>Unknown</h1>" in shown
    assert "no &lt;b&gt;" in shown
    assert 'href="/evaluations"' in shown


def test_pairs_leave_out_what_is_empty() -> None:
    assert pairs(("A", "1"), ("B", ""), ("C", element("i"))) == (
        "<dl><dt>A</dt><dd>1</dd><dt>C</dt><dd><i></i></dd></dl>"
    )
