"""Versions and constraints, in PEP 440 and in the papers' words."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.manifests.constraints import constraint_of, meet, satisfies, version_order
from mlscope.manifests.errors import BadConstraint


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
        ("  ", ["1.0", "abc", ""], []),
        (", ,", ["1.0"], []),
        ("v1.15", ["1.15.0"], ["1.16"]),
        ("1.*", ["1.31.1"], ["2.0"]),
        (">=1.12.0\n<2.0", ["1.15"], ["2.0.1"]),
        ("==1.15.*, !=1.15.2", ["1.15.1"], ["1.15.2"]),
        ("===nightly", ["nightly"], ["1.0", "nightly2"]),
        (">=2 <1", [], ["1.5", "3.0"]),
        (">=1.0", ["1.0+cu12"], ["9" * 5000]),
    ],
)
def test_what_fits(text: str, fits: list[str], fits_not: list[str]) -> None:
    constraint = constraint_of(text)
    assert [v for v in fits if not satisfies(v, constraint)] == []
    assert [v for v in fits_not if satisfies(v, constraint)] == []


@pytest.mark.parametrize(
    "text",
    [
        ">=",
        "=>1.0",
        ">=1.0 and <2",
        "newest",
        "~1.2",
        "^1.2",
        "1.x",
        ">=1.12.0<2.0",
        ">=1 || <0.5",
        "~=1",
        ">=1.0.*",
        "\u0000",
        "=",
        "1..2",
        "=1.2",
    ],
)
def test_what_is_no_constraint_is_named(text: str) -> None:
    with pytest.raises(BadConstraint) as refused:
        constraint_of(text)
    assert refused.value.text == text


def test_versions_sort_as_versions() -> None:
    versions = ["1.9.0", "1.10.0", "nightly", "1.10.0rc1"]
    assert max(versions, key=version_order) == "1.10.0"


@pytest.mark.parametrize("text", ["9" * 5000, ">=1." + "0" * 300, ">=1 " * 100_000])
def test_a_text_too_long_to_weigh_at_every_look_is_none(text: str) -> None:
    with pytest.raises(BadConstraint) as refused:
        constraint_of(text)
    assert len(str(refused.value)) < 200


@given(st.text(max_size=40))
def test_any_text_is_a_constraint_or_named_as_none(text: str) -> None:
    with contextlib.suppress(BadConstraint):
        satisfies("1.15.0", constraint_of(text))


@given(st.lists(st.one_of(st.text(max_size=20), st.just("1.0"), st.just("9" * 5000)), max_size=8))
def test_any_versions_have_an_order(versions: list[str]) -> None:
    ordered = sorted(versions, key=version_order)
    assert sorted(ordered) == sorted(versions)
    assert [version_order(each)[0] for each in ordered] == sorted(
        version_order(each)[0] for each in ordered
    )


@pytest.mark.parametrize(
    ("one", "other", "do"),
    [
        ("", "", True),
        ("", ">=2.0", True),
        (">=1.12.0 <2.0", ">=2.0", False),
        (">=1.12.0 <2.0", ">1.12", True),
        ("<2", ">1", True),
        ("<2", "<3", True),
        ("==1.15.*", "1.15.3", True),
        ("==1.15.*", ">=1.16", False),
        ("!=1.5", "1.5", False),
        ("<1.0", "<=0.5", True),
        ("~=1.4", "<1.4", False),
    ],
)
def test_constraints_meet_where_a_version_fits_both(one: str, other: str, do: bool) -> None:
    both = constraint_of(one), constraint_of(other)
    assert (meet(*both), meet(*reversed(both))) == (do, do)
