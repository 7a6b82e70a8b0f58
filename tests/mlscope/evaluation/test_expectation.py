"""How long a request will take, as a text."""

import pytest

from mlscope.evaluation.expectation import expected_text, rounded_time
from schemas.level import Level
from schemas.status import FittingAgent, Matched


def matched(expected_s: float | None, *chosen: bool) -> Matched:
    runtime = {"framework": "onnxruntime", "version": "1.31.0", "device": "cpu"}
    agents = tuple(
        FittingAgent(agent=f"a{number}", deepest_level=Level.MODEL, chosen=is_chosen, **runtime)
        for number, is_chosen in enumerate(chosen)
    )
    names = {"model": "tiny:1.0.0", "dataset": "photos:1.0.0"}
    return Matched(**names, agents=agents, expected_s=expected_s, expected_from=6)


def test_the_text_names_the_time_and_its_source() -> None:
    one = "about 40 s (from 6 earlier runs of this model on this agent)"
    assert expected_text(matched(40.2, True, False)) == one
    assert expected_text(matched(40.2, True, True)).endswith("of this model on these agents)")
    assert expected_text(matched(None, True)) == ""


@pytest.mark.parametrize(
    ("duration_s", "text"),
    [(0.031, "0.03 s"), (40.2, "40 s"), (119, "119 s"), (720, "12 min"), (12_600, "3.5 h")],
)
def test_a_time_is_rounded(duration_s: float, text: str) -> None:
    assert rounded_time(duration_s) == text
