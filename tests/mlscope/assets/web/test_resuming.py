"""What an answer means for the bytes that are here."""

from http.client import HTTPMessage

import pytest

from mlscope.assets.web.resuming import Origin, Plan, origin_of, plan, request_headers

URL = "https://h/m"
KEPT = Origin(URL, '"one"', "Mon, 01 Jan 2024 00:00:00 GMT", 900)


def planned(status: int, headers: dict[str, str], done: int = 300) -> Plan:
    """Return the plan for an answer."""
    said = HTTPMessage()
    for name, value in headers.items():
        said[name] = value
    return plan(status, said, done, KEPT, origin_of(URL, status, said))


@pytest.mark.parametrize(
    ("status", "headers", "wanted"),
    [
        (200, {"Content-Length": "900"}, Plan.RESTART),
        (206, {"Content-Range": "bytes 300-899/900", "ETag": '"one"'}, Plan.CONTINUE),
        (206, {"Content-Range": "bytes 300-899/*"}, Plan.CONTINUE),
        (206, {"Content-Range": "bytes 300-899/900", "ETag": '"two"'}, Plan.RESTART_ASK),
        (206, {"Content-Range": "bytes 300-999/1000"}, Plan.RESTART_ASK),
        (206, {"Content-Range": "bytes 299-899/900"}, Plan.RESTART_ASK),
        (206, {}, Plan.RESTART_ASK),
        (304, {}, Plan.UNCHANGED),
        (416, {"Content-Range": "bytes */300"}, Plan.RESTART_ASK),
        (416, {"Content-Range": "bytes */900"}, Plan.RESTART_ASK),
        (404, {}, Plan.FAIL),
        (503, {}, Plan.FAIL),
    ],
)
def test_an_answer_means_one_thing(status: int, headers: dict[str, str], wanted: Plan) -> None:
    assert planned(status, headers) is wanted


def test_all_that_is_there_is_here() -> None:
    headers = {"Content-Range": "bytes */900", "ETag": '"one"'}
    assert planned(416, headers, done=900) is Plan.COMPLETE
    assert planned(416, headers, done=901) is Plan.RESTART_ASK
    assert planned(416, headers, done=0) is Plan.FAIL


def test_the_rest_is_asked_for_where_that_is_safe() -> None:
    known = Origin(URL, '"one"')
    weak = Origin(URL, 'W/"one"')
    rest = {"Range": "bytes=300-"}
    assert request_headers(300, KEPT, None, is_checked=False) == {**rest, "If-Range": '"one"'}
    assert request_headers(300, weak, None, is_checked=True) == rest
    assert request_headers(300, weak, None, is_checked=False) == {}
    assert request_headers(0, KEPT, known, is_checked=False) == {"If-None-Match": '"one"'}


def test_a_record_is_of_its_own_url_only() -> None:
    assert Origin.read(KEPT.record(), URL) == KEPT
    assert Origin.read(KEPT.record(), "https://h/other") is None
