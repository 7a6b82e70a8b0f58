"""Steps by name and their parameters."""

import inspect
import re
import sys

import pytest

from schemas.manifest import Step
from services.agent import steps
from services.agent.errors import BadParameter, FileMissing, PackageMissing, UnknownName
from services.agent.steps import operator_of


def no_labels(name: str) -> tuple[str, ...]:
    raise FileMissing(name, "no such file")


def test_an_unknown_step_lists_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="unknown step 'blur'; known: answer_span, argsort, "):
        operator_of(Step(operator="blur"), no_labels)


@pytest.mark.parametrize(
    ("operator", "parameters", "named"),
    [
        ("decode", {"color_mode": "CMYK"}, "color_mode must be one of RGB, BGR"),
        ("decode", {"colour": "RGB"}, "colour must be one of"),
        ("resize", {"dimensions": [3, 0, 5]}, "dimensions must be"),
        ("resize", {"dimensions": 8, "method": "best"}, "method must be one of bilinear"),
        ("resize", {"dimensions": 8, "keep_aspect_ratio": "yes"}, "keep_aspect_ratio must be true"),
        ("crop", {}, "dimensions must be given, or else ratio"),
        ("crop", {"ratio": 1.5}, "ratio must be a number above 0"),
        ("normalize", {"mean": [1, 2]}, "mean must be one number, or three"),
        ("normalize", {"scale": [1, 0, 1]}, "scale must be other than 0"),
        ("cast", {"element_type": "float8"}, "element_type must be one of"),
        ("cast", {"data_layout": "WHC"}, "data_layout must be one of"),
        ("topk", {"k": 0}, "k must be a whole number from 1"),
        ("topk", {"labels": 5}, "labels must be the name of a label file"),
        ("softmax", {"axis": 1}, "axis must be one of"),
    ],
)
def test_a_wrong_parameter_is_named(
    operator: str, parameters: dict[str, object], named: str
) -> None:
    with pytest.raises(BadParameter) as caught:
        operator_of(Step(operator=operator, parameters=parameters), no_labels)
    assert named in str(caught.value)


def test_a_missing_label_file_is_an_asset_error() -> None:
    with pytest.raises(FileMissing, match=r"labels\.txt"):
        operator_of(Step(operator="topk", parameters={"labels": "labels.txt"}), no_labels)


@pytest.mark.parametrize("operator", ["decode", "resize"])
def test_a_missing_package_is_noticed_before_a_run(
    operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(PackageMissing, match="install Pillow"):
        operator_of(Step(operator=operator, parameters={}), no_labels)


@pytest.mark.parametrize(
    ("step", "library"),
    [(Step(operator="decode"), True), (Step(operator="crop", parameters={"ratio": 0.5}), False)],
)
def test_a_step_names_the_library_that_its_pixels_depend_on(step: Step, library: bool) -> None:
    named = operator_of(step, no_labels).library
    assert bool(re.fullmatch(r"Pillow [\d.]+ \(libjpeg(-turbo)? [\d.]+\)", named)) == library


@pytest.mark.parametrize("name", sorted(steps.OPERATOR_FACTORIES))
def test_every_step_says_what_shapes_it_takes_and_gives(name: str) -> None:
    said = inspect.getdoc(steps.OPERATOR_FACTORIES[name]) or ""
    taken, arrow, given = said.partition("\n")[0].partition(" -> ")
    assert taken.startswith("Return "), said
    assert all((arrow, given)), said
