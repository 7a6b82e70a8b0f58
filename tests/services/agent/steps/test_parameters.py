"""Reading a step's parameters, one by one."""

from typing import Any

import pytest

from services.agent.errors import BadParameter
from services.agent.steps.parameters import Parameters


def parameters(**values: Any) -> Parameters:
    return Parameters("step", values, lambda name: (name, "second"))


def test_what_is_not_given_has_its_default() -> None:
    read = parameters()
    assert read.choice("mode", ("RGB", "BGR"), "RGB") == "RGB"
    assert read.flag("keeps", default=True) is True
    assert read.integer("k", default=5) == 5
    assert read.fraction("ratio") is None
    assert read.per_channel(("mean",), default=2) == (2.0,)
    assert read.size(required=False) is None
    assert read.labels(("labels",)) == ()
    read.refuse_unread()


def test_a_choice_is_spelled_in_any_case() -> None:
    assert parameters(mode="bGr").choice("mode", ("RGB", "BGR"), "RGB") == "BGR"


def test_the_first_of_several_names_is_read_and_the_other_is_then_unknown() -> None:
    read = parameters(scale=2, rescale=3)
    assert read.per_channel(("scale", "rescale"), default=1.0) == (2.0,)
    with pytest.raises(BadParameter, match=r"rescale must be one of scale \(found 3\)"):
        read.refuse_unread()


def test_labels_are_read_under_the_name_given() -> None:
    read = parameters(labels_url="names.txt")
    assert read.labels(("labels", "labels_url")) == ("names.txt", "second")


@pytest.mark.parametrize(
    ("size", "expected"), [(7, (7, 7)), ([2, 3], (2, 3)), ([3, 4, 5], (4, 5)), ((8, 9), (8, 9))]
)
def test_a_size_is_height_and_width(size: Any, expected: tuple[int, int]) -> None:
    assert parameters(dimensions=size).size() == expected


@pytest.mark.parametrize("size", [None, 0, 1.5, True, "5", [5], [1, 2, 3, 4], [5, -1]])
def test_what_is_no_size_is_named(size: Any) -> None:
    with pytest.raises(BadParameter, match="dimensions must be"):
        parameters(dimensions=size).size()


@pytest.mark.parametrize("value", [True, 0, -3, 2.0, "4"])
def test_what_is_no_count_is_named(value: Any) -> None:
    with pytest.raises(BadParameter, match="k must be a whole number from 1"):
        parameters(k=value).integer("k", default=5)


@pytest.mark.parametrize("value", [0, -0.5, 1.01, True, "half"])
def test_what_is_no_share_is_named(value: Any) -> None:
    with pytest.raises(BadParameter, match="ratio must be a number above 0, up to 1"):
        parameters(ratio=value).fraction("ratio")
