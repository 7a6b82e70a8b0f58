"""The list of evaluations: rows with figures, pages, orders, and what to do when it is empty."""

import re

import pytest

from mlscope.evaluation.status import unrequested_status
from schemas.analysis import Estimate, Headline
from schemas.status import EvaluationList, EvaluationStatus, Extent
from services.gateway.pages.evaluations import Search, evaluations_view, search_of
from services.gateway.rendering import age_element, html_of, time_element
from tests.stories import E


def shown(*evaluations: EvaluationStatus, total: int | None = None, **search: object) -> str:
    answer = EvaluationList(evaluations=evaluations, total=total)
    found = Search(**search)  # type: ignore[arg-type]
    return html_of(evaluations_view(answer, found, can_compare=True))


def a_status(**changes: object) -> EvaluationStatus:
    return unrequested_status(E).model_copy(update=changes)


def test_without_evaluations_it_says_how_to_get_one() -> None:
    assert "mlscope run" in shown()
    assert "mlscope run" not in shown(search="tiny")


def test_each_has_a_row_that_leads_to_its_page() -> None:
    status = a_status(model="<tiny>", agents=("a1", "a2"), framework="onnxruntime 1.20.0")
    html = shown(status, status)
    assert html.count(f'href="/evaluations/{E}"') == 2
    assert "&lt;tiny&gt;" in html
    assert "a1, a2" in html
    assert "onnxruntime 1.20.0" in html
    assert html.count(f'name="evaluation" value="{E}"') == 2


def test_labels_and_the_figures_of_the_best_load_are_shown_with_their_intervals() -> None:
    headline = Headline(
        run="r0",
        agent="a1",
        scenario="poisson",
        batch_size=4,
        statistic="p99",
        latency_ns=Estimate(value=5.12e6, low=5e6, high=5.4e6),
        samples_per_s=Estimate(value=812.0, low=800.0, high=820.0),
    )
    p90 = Estimate(value=4e6, low=3e6)
    rate = Estimate(value=900.0)
    best = headline.model_copy(
        update={"batch_size": 8, "p90_ns": p90, "samples_per_s": rate, "is_noisy": True}
    )
    html = shown(a_status(labels={"build": "7"}, headlines=(headline, best)))
    assert ">build=7</span>" in html
    html = html.replace("\N{NO-BREAK SPACE}", " ")
    assert (
        'title="poisson, batch 8">4.00 ms</span><small>batch 8, p90, 3.00 … unknown</small>' in html
    )
    assert 'title="poisson, batch 8">900 /s</span><small>batch 8, no interval</small>' in html
    assert ">noisy</td>" in html
    html = shown(a_status(headlines=(headline,)))
    assert (
        ">5.12\N{NO-BREAK SPACE}ms</span><small>batch 4, 99th percentile, 5.00 … 5.40</small>"
        in html
    )
    assert ">812\N{NO-BREAK SPACE}/s</span><small>batch 4, 800 … 820</small>" in html
    assert '<td class="noise">quiet</td>' in html
    assert '<td class="noise"></td>' in shown(a_status())


def test_what_was_asked_for_is_said_in_short() -> None:
    extent = Extent(scenarios=("online", "batched"), batch_sizes=(1, 2, 4), levels=("system",))
    html = shown(a_status(extent=extent))
    assert "online, batched<small>batch 1 … 4 · system</small>" in html


def test_what_was_asked_stands_in_the_form_again() -> None:
    html = shown(search='a"b', state="failed", predictions="true", filters=(("agent", "a1"),))
    assert 'name="search" value="a&#34;b"' in html
    assert '<option value="failed" selected>' in html
    assert '<option value="true" selected>predictions too' in html
    assert '<input type="hidden" name="agent" value="a1">' in html
    assert 'title="remove this filter">agent = a1' in html


def test_an_empty_search_says_what_to_change() -> None:
    html = shown(search="resnet gpu", state="failed", filters=(("model", "res"),))
    assert "No evaluation matches “resnet gpu” in state failed." in html
    assert 'href="/evaluations?search=res">search for “res” in every field' in html
    assert "search for “resnet” alone" in html
    assert 'href="/evaluations">show all evaluations' in html


def test_a_page_leads_to_the_others_and_keeps_the_search() -> None:
    html = shown(*[a_status()] * 50, total=120, search="tiny", sort="latency", page=2)
    assert "51 to 100 of 120" in html
    assert 'href="/evaluations?search=tiny&amp;sort=latency" rel="prev"' in html
    assert 'href="/evaluations?search=tiny&amp;sort=latency&amp;page=3" rel="next"' in html


def test_headings_sort_and_say_by_what_the_list_is_sorted() -> None:
    html = shown(a_status())
    assert '<th aria-sort="descending"><a href="/evaluations?sort=oldest">Requested</a>' in html
    assert 'href="/evaluations?sort=throughput">Samples/s</a>' in html
    assert 'href="/evaluations?sort=noise">Noise</a>' in html
    latency = shown(a_status(), sort="latency")
    assert (
        '<th class="number" aria-sort="ascending"><a href="/evaluations?sort=latency">' in latency
    )


@pytest.mark.parametrize("number", ["x", "-1", "9" * 9, "٣"])
def test_an_address_with_nonsense_is_the_first_page(number: str) -> None:
    assert search_of([("page", number), ("sort", "colour")]) == Search()


@pytest.mark.parametrize(
    ("epoch_ns", "text"),
    [(0, ""), (1_795_226_400_999_999_999, "2026-11-21 02:00:00 UTC")],
)
def test_a_time_is_utc_to_the_second(epoch_ns: int, text: str) -> None:
    assert re.sub("<[^>]*>", "", time_element(epoch_ns)) == text


@pytest.mark.parametrize(
    ("age_s", "text"),
    [
        (5, "just now"),
        (61, "1 minute ago"),
        (7200, "2 hours ago"),
        (200_000, "2 days ago"),
        (9_000_000, "2026-11-21"),
    ],
)
def test_an_age_is_short_and_the_time_is_its_tooltip(age_s: int, text: str) -> None:
    then_ns = 1_795_226_400 * 10**9
    html = age_element(then_ns, then_ns + age_s * 10**9)
    assert html.endswith(f'title="2026-11-21 02:00:00 UTC">{text}</time>')
