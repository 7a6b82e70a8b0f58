"""Answers in words: a line a feature, whatever a model says."""

from typing import Any

import pytest

from mlscope.texts.features import MOST_CHARACTERS, FeatureLine, feature_lines


@pytest.mark.parametrize(
    ("feature", "line"),
    [
        ({"label": "cat", "index": 3, "probability": 0.5}, FeatureLine("cat", 0.5)),
        ({"index": 3, "label": "", "probability": 1}, FeatureLine("class 3", 1.0)),
        ({"type": "text", "text": "hello", "probability": 0.9}, FeatureLine("hello", 0.9)),
        (
            {"label": "cat", "probability": 0.5, "xmin": 1, "ymin": 2.25, "xmax": 30.0, "ymax": 4},
            FeatureLine("cat", 0.5, "box 1 2.25 30 4"),
        ),
        (
            {
                "type": "raw",
                "shape": [9],
                "element_type": "float32",
                "values": [1.0, None, 2, 3, 4],
            },
            FeatureLine("1 nan 2 3 …", None, "float32[9]"),
        ),
        (
            {"type": "image", "format": "png", "size": [20, 10]},
            FeatureLine("png image", None, "10 x 20"),
        ),
        ({"label": "cat", "output": "second"}, FeatureLine("second: cat")),
        ({"left_out": {"feature": 9}}, FeatureLine("too large to be kept")),
        ({"strange": True}, FeatureLine("{'strange': True}")),
    ],
)
def test_each_kind_has_its_line(feature: dict[str, Any], line: FeatureLine) -> None:
    assert feature_lines([feature]) == [line]


def test_a_map_has_a_line_a_class_with_its_share() -> None:
    classes = [{"index": 0, "label": "road", "pixels": 3}, {"index": 7, "label": "", "pixels": 1}]
    told = feature_lines([{"type": "semanticsegment", "size": [2, 2], "classes": classes}])
    assert [(line.answer, line.detail) for line in told] == [
        ("road", "75.0% of 2 x 2"),
        ("class 7", "25.0% of 2 x 2"),
    ]


def test_a_long_text_is_cut() -> None:
    (line,) = feature_lines([{"text": "x" * 999}])
    assert line.answer == "x" * MOST_CHARACTERS + "…"
