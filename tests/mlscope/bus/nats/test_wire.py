"""The issuer's piece of the NATS protocol."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.bus.nats.wire import Frame, Parser, connect_line, publication, subscription

STREAM = (
    b'INFO {"nonce":"x"}\r\n'
    b"PING\r\n"
    b"MSG a.1 1 5\r\nhe\r\no\r\n"
    b"MSG a.2 1 0\r\n\r\n"
    b"-ERR 'Permissions Violation'\r\n"
)
FRAMES = [
    Frame("INFO", body=b'{"nonce":"x"}'),
    Frame("PING"),
    Frame("MSG", "a.1", b"he\r\no"),
    Frame("MSG", "a.2"),
    Frame("ERR", body=b"'Permissions Violation'"),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_frames_do_not_depend_on_how_bytes_arrive(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    parser = Parser()
    parts = [STREAM[a:b] for a, b in itertools.pairwise(edges)]
    assert [frame for part in parts for frame in parser.feed(part)] == FRAMES


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_frames_that_a_caller_leaves_come_the_next_time(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    parser = Parser()
    firsts = [next(parser.feed(STREAM[a:b]), None) for a, b in itertools.pairwise(edges)]
    rest = list(parser.feed(b""))
    assert [*filter(None, firsts), *rest] == FRAMES


def test_foreign_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="not the NATS protocol"):
        list(Parser().feed(b"HTTP/1.1 200 OK\r\n"))


def test_publication_and_subscription_are_the_protocols() -> None:
    assert publication("a.b", "r.1", b"xyz") == b"PUB a.b r.1 3\r\nxyz\r\n"
    assert subscription("r.*") == b"SUB r.* 1\r\n"


def test_without_a_seed_no_key_is_claimed() -> None:
    options = json.loads(connect_line(b'{"nonce":"x"}', None, "issuer")[8:])
    assert options["verbose"] is False
    assert "sig" not in options
