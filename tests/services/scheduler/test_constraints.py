"""Versions and constraints, in PEP 440 and in the papers' words."""

import pytest

from services.scheduler.constraints import constraint_of, newest_first, satisfies
from services.scheduler.errors import BadConstraint


@pytest.mark.parametrize(
    ("text", "fits", "fits_not"),
    [
        ("", ["1.0", "abc"], []),
        ("*", ["1.0"], []),
        (">=1.12.0 <2.0", ["1.12.0", "1.99"], ["1.11.9", "2.0"]),
        (">=1.12.0, <2.0", ["1.15"], ["2.0.1"]),
        (">= 1.12.0 < 2.0", ["1.15"], ["2.0.1"]),
        ("==1.15.*", ["1.15.3"], ["1.16"]),
        ("1.15", ["1.15", "1.15.0"], ["1.15.1"]),
        ("~=1.4", ["1.9"], ["2.0"]),
        ("!=1.5", ["1.4"], ["1.5"]),
        (">=1.0", ["1.31.1", "2.0rc1"], ["nightly"]),
    ],
)
def test_what_fits(text: str, fits: list[str], fits_not: list[str]) -> None:
    constraint = constraint_of(text)
    assert [v for v in fits if not satisfies(v, constraint)] == []
    assert [v for v in fits_not if satisfies(v, constraint)] == []


@pytest.mark.parametrize("text", [">=", "=>1.0", ">=1.0 and <2", "newest"])
def test_what_is_no_constraint_is_named(text: str) -> None:
    with pytest.raises(BadConstraint) as refused:
        constraint_of(text)
    assert refused.value.text == text


def test_versions_sort_as_versions() -> None:
    versions = ["1.9.0", "1.10.0", "nightly", "1.10.0rc1"]
    assert max(versions, key=newest_first) == "1.10.0"
