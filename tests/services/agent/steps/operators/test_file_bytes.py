"""bytes: a file's ends as numbers, the same as Magika's own."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.services.agent.steps.applying import apply


def reference(body: bytes, first: int, last: int, block: int, padding: int) -> list[int]:
    """Return Magika 1.0's features (magika.py, _extract_features_from_seekable), written anew."""
    count = min(block, len(body))
    beginning = list(body[:count].lstrip()[:first])
    end = body[len(body) - count :].rstrip()
    ending = list(end[len(end) - last :] if last < len(end) else end)
    behind, before = [padding] * (first - len(beginning)), [padding] * (last - len(ending))
    return [*beginning, *behind, *before, *ending]


@given(st.binary(max_size=60), st.integers(1, 12), st.integers(1, 12), st.integers(12, 30))
def test_it_is_magika_s(body: bytes, first: int, last: int, block: int) -> None:
    options: dict[str, Any] = {"first": first, "last": last, "block": block, "padding": 256}
    assert apply("bytes", body, **options).tolist() == reference(body, **options)


def test_white_space_before_and_behind_does_not_count() -> None:
    found = apply("bytes", b"  ab\n", first=3, last=3)
    assert found.tolist() == [97, 98, 10, 32, 97, 98]
    assert found.dtype == np.int32


@pytest.mark.parametrize("body", [b"", b" \n\t ", bytes(random.Random(1).randbytes(9000))])
def test_any_file_has_as_many_numbers(body: bytes) -> None:
    found = apply("bytes", body)
    assert found.shape == (2048,)
    assert found.max() <= 256
