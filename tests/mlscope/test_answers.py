"""Answers in words: a line a feature, whatever a model says."""

from typing import Any

import pytest

from mlscope.answers import MOST_CHARACTERS, Line, lines_of


@pytest.mark.parametrize(
    ("feature", "line"),
    [
        ({"label": "cat", "index": 3, "probability": 0.5}, Line("cat", 0.5)),
        ({"index": 3, "label": "", "probability": 1}, Line("class 3", 1.0)),
        ({"type": "text", "text": "hello", "probability": 0.9}, Line("hello", 0.9)),
        (
            {"label": "cat", "probability": 0.5, "xmin": 1, "ymin": 2.25, "xmax": 30.0, "ymax": 4},
            Line("cat", 0.5, "box 1 2.25 30 4"),
        ),
        (
            {
                "type": "raw",
                "shape": [9],
                "element_type": "float32",
                "values": [1.0, None, 2, 3, 4],
            },
            Line("1 nan 2 3 …", None, "float32[9]"),
        ),
        ({"type": "image", "format": "png", "size": [20, 10]}, Line("png image", None, "10 x 20")),
        ({"label": "cat", "output": "second"}, Line("second: cat")),
        ({"left_out": {"feature": 9}}, Line("too large to be kept")),
        ({"strange": True}, Line("{'strange': True}")),
    ],
)
def test_each_kind_has_its_line(feature: dict[str, Any], line: Line) -> None:
    assert lines_of([feature]) == [line]


def test_a_map_has_a_line_a_class_with_its_share() -> None:
    classes = [{"index": 0, "label": "road", "pixels": 3}, {"index": 7, "label": "", "pixels": 1}]
    told = lines_of([{"type": "semanticsegment", "size": [2, 2], "classes": classes}])
    assert [(line.answer, line.detail) for line in told] == [
        ("road", "75.0% of 2 x 2"),
        ("class 7", "25.0% of 2 x 2"),
    ]


def test_a_long_text_is_cut() -> None:
    (line,) = lines_of([{"text": "x" * 999}])
    assert line.answer == "x" * MOST_CHARACTERS + "…"
