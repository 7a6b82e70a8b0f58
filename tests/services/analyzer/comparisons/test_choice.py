"""Cost, and what to choose under targets."""

from typing import Any

import pytest

from services.analyzer.comparisons.accuracy import COMPARISON as ACCURACY
from services.analyzer.comparisons.accuracy import is_better
from services.analyzer.comparisons.choice import COMPARISON as CHOICE
from services.analyzer.comparisons.cost import COMPARISON as COST
from services.analyzer.comparisons.source import Source, Terms
from tests.services.analyzer.comparisons.reading import batch, rows, source, table_of

MS = 1_000_000
FAST = source("fast", batch(1, MS, agent="dear"), batch(8, 4 * MS, agent="dear"))
SLOW = source("slow", batch(1, 10 * MS, agent="cheap"), batch(8, 40 * MS, agent="cheap"))
PRICES = {"dear": 3.6, "cheap": 0.036}


def _chosen(terms: Terms) -> tuple[str, int] | None:
    told = [row for row in rows(CHOICE, FAST, SLOW, terms=terms) if row["is_chosen"]]
    return (told[0]["evaluation"], told[0]["batch_size"]) if told else None


def test_a_million_costs_the_hours_it_takes() -> None:
    told = rows(COST, FAST, SLOW, terms=Terms(prices=PRICES))
    costs = {(row["evaluation"], row["batch_size"]): row["cost"] for row in told}
    # 1 ms each: 1000 s at $3.6 an hour are $1.
    assert costs["fast", 1] == pytest.approx(1.0)
    assert costs["fast", 8] == pytest.approx(0.5)
    assert costs["slow", 1] == pytest.approx(0.1)


def test_an_agent_without_a_price_has_no_cost_of_zero() -> None:
    table = table_of(COST, [FAST, SLOW], Terms(prices={"dear": 3.6}))
    assert {row[0] for row in table.rows} == {"fast"}
    assert table.caveats == ("no price of: cheap",)
    assert table_of(COST, [FAST]).rows == ()


@pytest.mark.parametrize(
    ("terms", "chosen"),
    [
        (Terms(), ("fast", 8)),
        (Terms(most_latency_ns=2 * MS), ("fast", 1)),
        (Terms(prices=PRICES), ("slow", 8)),
        (Terms(prices=PRICES, most_latency_ns=20 * MS), ("slow", 1)),
        (Terms(prices=PRICES, most_latency_ns=5 * MS), ("fast", 8)),
        (Terms(prices=PRICES, most_latency_ns=5 * MS, most_cost=0.2), None),
        (Terms(least_accuracy=0.5), None),
    ],
    ids=["most", "latency", "cheapest", "both", "dear", "none", "unknown accuracy"],
)
def test_the_choice_meets_every_target(terms: Terms, chosen: tuple[str, int] | None) -> None:
    assert _chosen(terms) == chosen


def test_a_target_is_held_against_the_upper_end_of_latency() -> None:
    wobbly = source("w", batch(1, MS, count=4, wobble=MS))
    (row,) = rows(CHOICE, wobbly, terms=Terms(most_latency_ns=1.6 * MS))
    assert row["latency"] < 1.6 * MS < row["latency_high"]
    assert (row["misses"], row["meets"]) == ("latency", False)


def test_without_a_target_none_is_met() -> None:
    verdict = table_of(CHOICE, [FAST]).verdict
    assert verdict.endswith("at batch 8, with the highest throughput; no target was given.")
    met = table_of(CHOICE, [FAST], Terms(most_latency_ns=2 * MS)).verdict
    assert met.endswith("with the highest throughput that meets a latency of 2 ms.")


def test_the_cheapest_is_of_those_with_a_price_and_the_others_are_named() -> None:
    table = table_of(CHOICE, [FAST, SLOW], Terms(prices={"dear": 3.6}))
    assert "on dear at batch 8, the cheapest of those with a price;" in table.verdict
    assert table.caveats == ("no price of: cheap",)
    priced = table_of(CHOICE, [FAST, SLOW], Terms(prices=PRICES))
    assert "the cheapest; no target" in priced.verdict
    assert priced.caveats == table_of(CHOICE, [FAST, SLOW]).caveats == ()


def test_a_choice_among_unlike_models_says_so_unless_accuracy_is_asked_for() -> None:
    other = source("other", batch(1, MS, agent="dear", model="resnet"))
    note = "models differ: m, resnet: without a target of accuracy they count as equal"
    assert table_of(CHOICE, [FAST, other]).caveats == (note,)
    assert table_of(CHOICE, [FAST, other], Terms(least_accuracy=0.5)).caveats == ()
    nameless = source("nameless", batch(1, MS, agent="dear", model=""))
    assert table_of(CHOICE, [FAST, nameless]).caveats[0].startswith("models differ: m, nameless:")
    another = source("another", batch(1, MS, agent="dear", model_version="2"))
    assert table_of(CHOICE, [FAST, another]).caveats == ()


def _judged(name: str, ns: int, hits: int, **more: Any) -> Source:
    outputs = [[n, n, {"features": [_answer(n < hits)], "truth": _truth()}] for n in range(10)]
    run: dict[str, Any] = batch(1, ns, count=10, outputs=outputs, model=name, **more)
    return source(name, run, scoring_context={"task": "image classification"})


def _answer(is_right: bool) -> dict[str, Any]:
    kind = {"kind": "classification", "index": 1 if is_right else 2, "probability": 1.0}
    return {**kind, "label": "cat" if is_right else "dog"}


def _truth() -> dict[str, Any]:
    return {"classes": [1], "labels": ["cat"]}


def test_what_is_slower_and_less_accurate_is_not_on_the_front() -> None:
    sources = [_judged("good", 3 * MS, 9), _judged("quick", MS, 5), _judged("poor", 4 * MS, 5)]
    told = {row["evaluation"]: row for row in rows(ACCURACY, *sources)}
    assert {name: row["accuracy"] for name, row in told.items()} == {
        "good": 0.9,
        "quick": 0.5,
        "poor": 0.5,
    }
    assert [name for name, row in told.items() if row["on_front"]] == ["good", "quick"]
    assert told["good"]["n"] == 10


def test_a_rival_is_better_only_where_nothing_is_worse() -> None:
    row = _figures(10.0, 0.5)
    assert is_better(_figures(9.0, 0.5), row)
    assert is_better(_figures(10.0, 0.6), row)
    assert not is_better(row, row)
    assert not is_better(_figures(11.0, 0.6), row)
    assert not is_better(_figures(9.0, 0.5) | {"batch_size": 2}, row)


def test_a_rival_is_better_only_beyond_doubt() -> None:
    row, faster = _figures(10.0, 0.5), _figures(9.0, 0.6)
    wide = {"latency_high": 10.5, "accuracy_low": 0.4}
    assert not is_better(faster | wide, row)
    assert is_better(faster | {"latency_high": 10.5}, row)
    assert not is_better(faster | {"latency_high": None, "accuracy_low": None}, row)


def _figures(latency: float, accuracy: float) -> dict[str, Any]:
    """Return a row with narrow intervals."""
    return {
        "metric": "top-1",
        "dataset": "d",
        "batch_size": 1,
        "latency": latency,
        "latency_low": latency - 0.1,
        "latency_high": latency + 0.1,
        "accuracy": accuracy,
        "accuracy_low": accuracy - 0.01,
        "accuracy_high": accuracy + 0.01,
    }


def test_accuracies_of_unlike_datasets_are_not_set_in_order() -> None:
    sources = [_judged("a", MS, 9, dataset="easy"), _judged("b", 4 * MS, 5, dataset="hard")]
    table = table_of(ACCURACY, sources)
    assert any(note.startswith("datasets differ: easy, hard") for note in table.caveats)
    assert [row["on_front"] for row in rows(ACCURACY, *sources)] == [True, True]


def test_the_size_is_the_model_s_published_one_not_what_its_process_took() -> None:
    told = {"memory_bytes": 488_000_000, "model_size_bytes": 102_000_000}
    known = _judged("known", MS, 9, conditions=told)
    unknown = _judged("unknown", 2 * MS, 9, conditions={"memory_bytes": 488_000_000})
    sizes = {row["model"]: row["size_bytes"] for row in rows(ACCURACY, known, unknown)}
    assert sizes == {"known:1": 102_000_000, "unknown:1": None}


def test_tables_of_before_there_were_sizes_have_none() -> None:
    now = _judged("old", MS, 9)
    told = now.tables["conditions"]
    at = [column.name for column in told.columns].index("model_size_bytes")
    rows_ = tuple(row[:at] + row[at + 1 :] for row in told.rows)
    kept = {"columns": told.columns[:at] + told.columns[at + 1 :], "rows": rows_}
    stored = Source("old", {**now.tables, "conditions": told.model_copy(update=kept)})
    assert [row["size_bytes"] for row in rows(ACCURACY, stored)] == [None]


def test_models_of_unknown_size_are_drawn_still() -> None:
    line, whiskers, chart = dict(ACCURACY.chart or {})["layer"]
    assert line["transform"] == [{"filter": "datum.on_front == true"}]
    assert whiskers["encoding"]["y2"] == {"field": "accuracy_high"}
    size = chart["encoding"]["size"]
    assert (size["condition"]["field"], size["condition"]["test"]) == (
        "size_bytes",
        "datum.size_bytes > 0",
    )
    assert (chart["mark"]["invalid"], size["value"]) == (None, 20)


def test_rates_that_intervals_do_not_tell_apart_are_named_after_the_choice() -> None:
    wobbly = [
        source(name, batch(1, ns, agent=name, wobble=MS)) for name, ns in (("a", 2 * MS), ("b", MS))
    ]
    assert table_of(CHOICE, wobbly).verdict == (
        "Choose m:1 on b at batch 1, with the highest throughput; no target was given."
    )
    near = source("c", batch(1, MS, agent="c", wobble=MS, count=38))
    assert table_of(CHOICE, [*wobbly, near]).verdict.endswith(
        "with the highest throughput by the estimates; no target was given. "
        "The intervals do not tell which has the highest throughput: m:1 on b at batch 1 or "
        "m:1 on c at batch 1."
    )


def test_costs_that_intervals_do_not_tell_apart_are_named_after_the_choice() -> None:
    alike = [source(name, batch(1, MS, agent=name)) for name in ("a", "b", "c")]
    table = table_of(CHOICE, alike, Terms(prices={"a": 1.0, "b": 1.0}))
    assert table.verdict.endswith(
        " The intervals do not tell which is the cheapest: m:1 on a at batch 1 or "
        "m:1 on b at batch 1."
    )


def test_of_equal_costs_the_highest_throughput_is_chosen() -> None:
    slow, fast = (source(name, batch(1, ns, agent=name)) for name, ns in (("a", 2 * MS), ("b", MS)))
    # Twice as fast at twice the price: a million costs the same.
    told = rows(CHOICE, slow, fast, terms=Terms(prices={"a": 1.8, "b": 3.6}))
    assert [row["cost"] for row in told] == pytest.approx([1.0, 1.0])
    assert [row["is_chosen"] for row in told] == [False, True]


def test_without_closed_loops_there_is_nothing_to_choose() -> None:
    due = [[n, 0, 1, n * MS, n * MS, n * MS, n * MS + 9, 9, 0] for n in range(9)]
    offered = source("open", batch(1, MS, queries=due, scenario="poisson"))
    assert table_of(CHOICE, [offered]).verdict == (
        "No evaluation measured latency in a closed loop."
    )
