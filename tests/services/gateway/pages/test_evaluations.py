"""The list of evaluations."""

import re
from collections.abc import Mapping, Sequence

import pytest

from mlscope.evaluation.status import unrequested_status
from schemas.status import EvaluationStatus
from services.gateway.pages.evaluations import evaluations_view
from services.gateway.rendering import html_of, time_element
from tests.stories import E


def shown(evaluations: Sequence[EvaluationStatus], query: Mapping[str, str]) -> str:
    return html_of(evaluations_view(evaluations, query))


def test_without_evaluations_it_says_how_to_get_one() -> None:
    assert "mlscope run" in shown([], {})
    assert "mlscope run" not in shown([], {"model": "tiny"})


def test_each_has_a_row_that_leads_to_its_page() -> None:
    status = unrequested_status(E).model_copy(update={"model": "<tiny>", "agents": ("a1", "a2")})
    html = shown([status, status], {})
    assert html.count(f'href="/evaluations/{E}"') == 2
    assert "&lt;tiny&gt;" in html
    assert "a1, a2" in html


def test_what_was_asked_stands_in_the_form_again() -> None:
    html = shown([], {"model": 'a"b', "state": "failed"})
    assert 'name="model" value="a&#34;b"' in html
    assert '<option value="failed" selected>' in html
    assert 'href="/evaluations"' in html


def test_labels_and_the_framework_are_shown() -> None:
    more = {"labels": {"build": "7"}, "framework": "onnxruntime 1.20.0"}
    html = shown([unrequested_status(E).model_copy(update=more)], {})
    assert "build=7" in html
    assert "onnxruntime 1.20.0" in html


@pytest.mark.parametrize(
    ("epoch_ns", "text"),
    [(0, ""), (1_795_226_400_999_999_999, "2026-11-21 02:00:00 UTC")],
)
def test_a_time_is_utc_to_the_second(epoch_ns: int, text: str) -> None:
    assert re.sub("<[^>]*>", "", time_element(epoch_ns)) == text
