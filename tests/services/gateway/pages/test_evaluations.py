"""The list of evaluations."""

import pytest

from mlscope.evaluation.status import unrequested_status
from services.gateway.pages.evaluations import evaluations_page, state_of, time_text
from tests.stories import E


def test_without_evaluations_it_says_how_to_get_one() -> None:
    assert "mlscope run" in evaluations_page([], {})
    assert "mlscope run" not in evaluations_page([], {"model": "tiny"})


def test_each_has_a_row_that_leads_to_its_page() -> None:
    status = unrequested_status(E).model_copy(update={"model": "<tiny>", "agents": ("a1", "a2")})
    shown = evaluations_page([status, status], {})
    assert shown.count(f'href="/evaluations/{E}"') == 2
    assert "&lt;tiny&gt;" in shown
    assert "a1, a2" in shown


def test_what_was_asked_stands_in_the_form_again() -> None:
    shown = evaluations_page([], {"model": 'a"b', "state": "failed"})
    assert 'name="model" value="a&quot;b"' in shown
    assert '<option value="failed" selected>' in shown
    assert 'href="/evaluations"' in shown


def test_labels_and_the_framework_are_shown() -> None:
    more = {"labels": {"build": "7"}, "framework": "onnxruntime 1.20.0"}
    shown = evaluations_page([unrequested_status(E).model_copy(update=more)], {})
    assert "build=7" in shown
    assert "onnxruntime 1.20.0" in shown


@pytest.mark.parametrize(
    ("epoch_ns", "shown"),
    [(0, ""), (1_795_226_400_999_999_999, "2026-11-21 02:00:00 UTC")],
)
def test_a_time_is_utc_to_the_second(epoch_ns: int, shown: str) -> None:
    assert time_text(epoch_ns) == shown


def test_a_state_is_a_word_and_a_class() -> None:
    assert state_of("failed") == '<span class="state failed">failed</span>'
