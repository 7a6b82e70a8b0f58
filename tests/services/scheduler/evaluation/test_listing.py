"""Lists of evaluations, against the plain definition: filter, sort, cut."""

import random

from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.evaluation.listing import Listing, Row

MODELS = ["tiny", "tiny:1.0", "tiny:2.0", "large", ""]
STATES = ["requested", "running", "analyzed"]


def plainly(rows: dict[str, Row], limit: int, model: str, state: str) -> list[str]:
    """Return what a list shows, by its definition."""
    fitting = [
        (row.requested_ns, name)
        for name, row in rows.items()
        if model in ("", row.model, row.model.partition(":")[0]) and state in ("", row.state)
    ]
    return [name for _, name in sorted(fitting, reverse=True)][:limit]


@given(st.integers(0, 10_000))
def test_a_list_is_what_its_definition_says(seed: int) -> None:
    dice = random.Random(seed)
    listing, rows = Listing(), dict[str, Row]()
    for _ in range(60):
        name = f"e{dice.randrange(12)}"
        if dice.random() < 0.2:
            listing.drop(name)
            rows.pop(name, None)
        else:
            known = rows.get(name, Row(dice.randrange(5), dice.choice(MODELS), ""))
            rows[name] = Row(known.requested_ns, known.model, dice.choice(STATES))
            listing.put(name, rows[name])
        asked = dice.randrange(1, 8), dice.choice([*MODELS, "none"]), dice.choice([*STATES, ""])
        limit, model, state = asked
        assert listing.matching(model, state)[:limit] == plainly(rows, *asked)


def test_nothing_is_kept_of_what_is_listed_no_more() -> None:
    listing = Listing()
    for number in range(100):
        listing.put(f"e{number}", Row(number, f"m{number}", "running"))
        listing.put(f"e{number}", Row(number, f"m{number}", "analyzed"))
        listing.drop(f"e{number}")
    assert (listing._orders, listing._rows) == ({}, {})


def test_figures_sort_with_unknown_ones_last_and_equal_ones_newest_first() -> None:
    listing = Listing()
    figures = {"a": None, "b": 10.0, "c": 30.0, "d": 10.0}
    for number, (name, figure) in enumerate(figures.items()):
        row = Row(number, name, "analyzed", samples_per_s=figure, latency_ns=figure)
        listing.put(name, row)
    assert listing.matching(order="throughput") == ["c", "d", "b", "a"]
    assert listing.matching(order="latency") == ["d", "b", "c", "a"]
    assert listing.matching(order="oldest") == ["a", "b", "c", "d"]
    assert listing.matching(order="model") == ["a", "b", "c", "d"]


def test_quiet_evaluations_come_before_noisy_ones_and_those_without_a_verdict_last() -> None:
    listing = Listing()
    for number, (name, noise) in enumerate({"a": None, "b": True, "c": False, "d": True}.items()):
        listing.put(name, Row(number, name, "analyzed", is_noisy=noise))
    assert listing.matching(order="noise") == ["c", "d", "b", "a"]


def a_listing(**rows: Row) -> Listing:
    """Return a listing of these rows by evaluation."""
    listing = Listing()
    for name, row in rows.items():
        listing.put(name, row)
    return listing


def test_what_is_listed_passes_every_filter_in_any_order() -> None:
    listing = a_listing(
        a=Row(1, "tiny", "running", device="cpu", requested_by="ada"),
        b=Row(2, "tiny", "running", device="cuda", requested_by="ada"),
        c=Row(3, "tiny", "running", device="cuda", requested_by="bob"),
        d=Row(4, "tiny", "running", device="cuda", requested_by="ada"),
    )
    filters = [lambda row: row.device == "cuda", lambda row: row.requested_by == "ada"]
    assert listing.matching(filters=filters) == ["d", "b"]
    assert listing.matching(filters=filters, order="oldest") == ["b", "d"]
    assert listing.matching(filters=iter(filters), order="state") == ["d", "b"]
    assert listing.matching(model="none", filters=filters) == []


def test_models_sort_by_name_in_any_case_then_by_version() -> None:
    listing = a_listing(
        a=Row(1, "Beta", "running"),
        b=Row(2, "alpha", "analyzed", version="2.0"),
        c=Row(3, "ALPHA", "planned", version="1.0"),
    )
    assert listing.matching(order="model") == ["c", "b", "a"]
    assert listing.matching(order="state") == ["b", "c", "a"]
    assert listing.matching("Alpha") == ["c", "b"]


def test_a_figure_of_nothing_is_a_figure() -> None:
    listing = a_listing(
        a=Row(1, "m", "analyzed", samples_per_s=None),
        b=Row(2, "m", "analyzed", samples_per_s=0.0),
        c=Row(3, "m", "analyzed", samples_per_s=2.0),
    )
    assert listing.matching(order="throughput") == ["c", "b", "a"]
