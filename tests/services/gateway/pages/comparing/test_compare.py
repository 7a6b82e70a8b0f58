"""The page of a comparison: letters, ratios, and its addresses."""

from urllib.parse import parse_qsl

import pytest

from schemas.analysis import Column, Estimate, Headline, Table
from schemas.request import Compare
from schemas.status import EvaluationStatus
from services.gateway.pages.comparing.compare import (
    address_of,
    letter_of,
    named,
    named_by_letter,
    ordered,
    query_of,
    rivals_of,
)
from services.gateway.pages.comparing.loads import load_rows
from services.gateway.pages.comparing.standings import Standing, standings_of
from services.gateway.parameters.query_string import figures_of
from tests.services.analyzer.comparisons.reading import all_tables


def status(name: str, latency_ns: float, samples_per_s: float) -> EvaluationStatus:
    """Return an evaluation with the figures of one load, known to 1%."""

    def estimate(value: float) -> Estimate:
        return Estimate(value=value, low=value * 0.99, high=value * 1.01)

    headline = Headline(
        run="r0",
        scenario="online",
        batch_size=1,
        latency_ns=estimate(latency_ns),
        statistic="trimmed_mean",
        samples_per_s=estimate(samples_per_s),
    )
    return EvaluationStatus(
        evaluation=name, state="analyzed", model="m", requested_ns=1, headlines=(headline,)
    )


def test_ratios_say_better_or_worse_where_the_interval_does() -> None:
    rows = load_rows([status("a", 10e6, 100), status("b", 5e6, 200), status("c", 10.01e6, 99.9)])
    latency, rate = rows
    assert (latency.figure, rate.figure) == ("latency", "samples a second")
    assert [ratio.tone for ratio in latency.ratios] == ["", "better", ""]
    assert [ratio.tone for ratio in rate.ratios] == ["", "better", ""]
    assert latency.ratios[1].text.startswith("0.500 (")
    (slower, _) = load_rows([status("b", 5e6, 200), status("a", 10e6, 100)])
    assert slower.ratios[1].tone == "worse"


def test_every_batch_size_has_its_ratios() -> None:
    tables = {table.name: table for table in all_tables("a", "b")}
    rows = load_rows([status("a", 1e6, 1e3), status("b", 2e6, 500)], tables)
    assert [(row.load, row.figure) for row in rows] == [
        (f"online, batch {size}", figure)
        for size in (1, 4)
        for figure in ("latency", "samples a second")
    ]
    assert {row.ratios[1].tone for row in rows} == {"worse"}
    assert rows[2].ratios[1].text.startswith("2.00")


def regressions(*rows: tuple[object, ...]) -> Table:
    """Return the table of pairs of `e1` and `e2`: level, batch size, drift, change, result."""
    names = (
        "second agent scenario second_run level batch_size drift_share change change_low "
        "change_high result drift noisy unlike"
    )
    columns = tuple(Column(name=name, type="text") for name in names.split())
    cells = [
        (
            *("e2", "a", "online", {"model": "r0"}.get(str(row[0]), "r1"), *row[:4]),
            *(None if row[3] is None else 0.0, None, row[4], "begun 64 s apart"),
            "first" if row[4] == "slower" else "",
            "threads, parameter rate_hz" if row[4] == "refused" else "",
        )
        for row in rows
    ]
    return Table(name="regressions", title="", columns=columns, rows=tuple(cells))


def test_an_evaluation_stands_where_its_least_traced_runs_say() -> None:
    several = regressions(
        ("framework", 1, None, 0.9, "slower"),
        ("model", 1, None, -0.27, "faster"),
        ("model", 2, None, 0.05, "slower"),
        ("model", 4, None, 0.01, "same"),
        ("model", 8, None, None, "refused"),
    )
    assert standings_of(several)["e2"] == [
        Standing(
            "▲ faster than the base at 1 of 4 loads: latency -27.0% (0.0 … unknown)", "better"
        ),
        Standing("▼ slower than the base at 1 of 4 loads: latency +5.0% (0.0 … unknown)", "worse"),
        Standing(
            "≈ no clear change of 1% or more at 1 of 4 loads: latency +1.0% (0.0 … unknown)", ""
        ),
        Standing("refused for unlike threads, parameter rate_hz at 1 of 4 loads", ""),
        Standing("begun 64 s apart", "doubt"),
        Standing("1 of 4 loads has noisy runs", "doubt"),
    ]
    assert standings_of(None) == {}


def test_no_variant_of_a_load_hides_another() -> None:
    variants = regressions(("model", 1, None, 0.3, "slower"), ("model", 1, None, 0.0, "same"))
    texts = [own.text for own in standings_of(variants)["e2"] if own.tone != "doubt"]
    assert [text.partition(":")[0] for text in texts] == [
        "▼ slower than the base at 1 of 2 loads",
        "≈ no clear change of 1% or more at 1 of 2 loads",
    ]


def test_of_several_loads_the_largest_change_is_said() -> None:
    standings = standings_of(next(t for t in all_tables("e1", "e2") if t.name == "regressions"))
    assert standings["e2"] == [
        Standing("▼ slower than the base at 2 of 2 loads: latency by up to 100.0%", "worse"),
        Standing("the interval leaves out drift between evaluations", "doubt"),
    ]


def test_a_ratio_within_the_drift_is_neither_better_nor_worse() -> None:
    statuses = [status("e1", 10e6, 100), status("e2", 8e6, 125)]
    tones = []
    for drift in (None, 0.1, 0.3):
        deeper = ("framework", 1, 0.9, -0.2, "same")
        table = regressions(deeper, ("model", 1, drift, -0.2, "faster"))
        latency, rate = load_rows(statuses, {"regressions": table})
        tones.append((latency.ratios[1].tone, rate.ratios[1].tone))
    assert tones == [("better", "better"), ("better", "better"), ("", "")]
    assert latency.ratios[1].text == "0.800 (0.615 … 1.040) of the base"


def test_a_pair_that_was_refused_has_its_ratio_without_a_verdict() -> None:
    table = regressions(("framework", 1, None, -0.2, "faster"), ("model", 1, None, None, "refused"))
    statuses = [status("e1", 10e6, 100), status("e2", 8e6, 125)]
    for row in load_rows(statuses, {"regressions": table}):
        assert (row.ratios[1].tone, row.ratios[1].unlike) == ("", "threads, parameter rate_hz")
        assert row.ratios[1].text.endswith("of the base")


def test_loads_of_two_agents_have_no_verdict_where_their_parameters_differ() -> None:
    def at(rate_hz: int, **figures: float) -> EvaluationStatus:
        own = status(f"e{rate_hz}", **figures)
        (line,) = own.headlines
        load = {"agent": f"a{rate_hz}", "parameters": f'{{"rate_hz": {rate_hz}, "seed": 1}}'}
        return own.model_copy(update={"headlines": (line.model_copy(update=load),)})

    slow, fast = at(50, latency_ns=9e6, samples_per_s=50), at(99, latency_ns=5e6, samples_per_s=99)
    latency, _ = load_rows([slow, fast])
    assert (latency.ratios[1].tone, latency.ratios[1].unlike) == ("", "parameter rate_hz")


def test_loads_of_one_scenario_and_size_are_told_apart_by_their_parameters() -> None:
    def both(name: str) -> EvaluationStatus:
        own = status(name, 10e6, 100)
        (line,) = own.headlines
        texts = [f'{{"queries": 5, "samples": "{mode}"}}' for mode in ("ahead", "streamed")]
        lines = tuple(line.model_copy(update={"parameters": text}) for text in texts)
        return own.model_copy(update={"headlines": lines})

    rows = load_rows([both("a"), both("b")])
    assert [row.load for row in rows[::2]] == [
        "online, batch 1, samples ahead",
        "online, batch 1, samples streamed",
    ]
    assert all(len(list(filter(None, (own.figure for own in row.ratios)))) == 2 for row in rows)


def test_letters() -> None:
    assert [letter_of(place) for place in (0, 25, 26, 52)] == ["A", "Z", "A2", "A3"]


def test_loads_that_the_base_lacks_come_last() -> None:
    tables = {table.name: table for table in all_tables("b", "c")}
    base = status("a", 1e6, 1e3)
    (headline,) = base.headlines
    larger = base.model_copy(update={"headlines": (headline.model_copy(update={"batch_size": 8}),)})
    statuses = [larger, status("b", 1e6, 1e3), status("c", 2e6, 500)]
    rows = load_rows(statuses, tables)
    assert [row.load for row in rows[::2]] == [f"online, batch {size}" for size in (8, 1, 4)]


def test_an_evaluation_without_a_load_of_the_base_says_so() -> None:
    tables = {table.name: table for table in all_tables("a", "b")}
    lone = status("c", 1, 1).model_copy(update={"tables": ("latency",)})
    rivals = rivals_of([status("a", 1, 1), lone], {}, standings_of(tables["regressions"]))
    assert [standing.text for standing in rivals[1].standings] == [
        "no load in common with the base"
    ]


def test_addresses_change_the_comparison_and_keep_its_terms() -> None:
    base, other = rivals_of([status("a", 1, 1), status("b", 1, 1)], {"price.x": "3"})
    assert base.is_base
    assert other.as_base == "/compare?runs=b,a&price.x=3"
    assert other.without == "/compare?runs=a&price.x=3"
    assert address_of(["a"], {}) == "/compare?runs=a"


def test_a_table_names_evaluations_by_their_letters() -> None:
    columns = (Column(name="evaluation", type="text"), Column(name="agent", type="text"))
    table = Table(
        name="systems",
        title="",
        columns=columns,
        rows=(("e1", "vm"), ("e2", "vm")),
        verdict="e2 is the fastest.",
        caveats=("e1: noisy",),
    )
    lettered = named(table, {"e1": "A", "e2": "B"})
    assert lettered.rows == (("A", "vm"), ("B", "vm"))
    assert (lettered.verdict, lettered.caveats) == ("B is the fastest.", ("A: noisy",))
    assert named_by_letter(lettered).rows == (("A", "A vm"), ("B", "B vm"))


def test_empty_tables_come_last() -> None:
    def table(name: str, *rows: tuple[int]) -> Table:
        return Table(name=name, title="", columns=(Column(name="n", type="int"),), rows=rows)

    tables = [table("regressions"), table("cost", (1,)), table("systems", (1,))]
    assert [one.name for one in ordered(tables)] == ["systems", "cost", "regressions"]


@pytest.mark.parametrize(
    "command",
    [
        Compare(first="a", second="b", figures=True),
        Compare(
            first="a",
            second="b",
            others=("c",),
            figures=True,
            prices={"vm": 0.12345678},
            most_latency_ns=1234567.5,
            most_cost=3.0,
            least_accuracy=0.5,
        ),
    ],
)
def test_the_query_of_a_comparison_asks_for_it(command: Compare) -> None:
    assert figures_of(parse_qsl(query_of(command))) == command
