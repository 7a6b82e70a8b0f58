"""The query of an address becomes a list's constraints, or a refusal that names its part."""

import httpx
import pytest

from schemas.encoding.errors import MalformedMessage
from schemas.request import ListEvaluations
from services.gateway.parameters.query_string import (
    FIGURES,
    MOST_PARAMETERS,
    QUERY,
    figures_of,
    list_of,
)
from tests.stand_ins import StandIns

ASKED = (
    ("limit", "3"),
    ("offset", "6"),
    ("sort", "latency"),
    ("search", "res cpu"),
    ("predictions", "true"),
    ("model", "tiny:>=1"),
    ("state", ""),
    ("framework", "onnxruntime:>=1.16"),
    ("agent", "a1"),
    ("agent", "a2"),
    ("device", "cpu"),
    ("memory_bytes", "8"),
    ("label", "build=007"),
    ("label", "by=a=b"),
    ("system_label", "rack=7"),
)
WANTED = ListEvaluations.model_validate(
    {
        "limit": 3,
        "offset": 6,
        "sort": "latency",
        "search": "res cpu",
        "predictions": True,
        "model": "tiny:>=1",
        "framework": "onnxruntime:>=1.16",
        "agents": ["a1", "a2"],
        "system": {"device": "cpu", "memory_bytes": 8, "labels": {"rack": "7"}},
        "labels": {"build": "007", "by": "a=b"},
    }
)


def test_a_query_is_a_list() -> None:
    assert list_of(ASKED) == WANTED
    assert list_of(()) == ListEvaluations()


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("label", "build", "label"),
        ("system_label", "=7", "system_label"),
        ("memory_bytes", "much", "system.memory_bytes"),
        ("agent", "a b", "agents.0"),
        ("colour", "red", "colour"),
    ],
)
def test_a_wrong_part_is_named(name: str, value: str, field: str) -> None:
    with pytest.raises(MalformedMessage) as raised:
        list_of([(name, value)])
    assert raised.value.field == field


@pytest.mark.parametrize("path", ["/api/evaluations", "/evaluations"])
async def test_pages_and_rest_ask_the_same(
    web: httpx.AsyncClient, standing: StandIns, path: str
) -> None:
    page = [("page", "3")] if path == "/evaluations" else []
    response = await web.get(path, params=[*ASKED, *page])
    assert response.status_code == 200
    assert standing.listed == [WANTED]


@pytest.mark.parametrize("path", ["/evaluations", "/api/evaluations"])
async def test_a_query_of_too_many_parameters_is_refused(
    web: httpx.AsyncClient, standing: StandIns, path: str
) -> None:
    # The page adds three of its own: the order, and the window that it shows.
    labels = [("label", f"k{number}=v") for number in range(MOST_PARAMETERS - 3)]
    assert (await web.get(path, params=(*labels,))).status_code == 200
    refused = await web.get(path, params=(*labels, *labels))
    assert refused.status_code == 400
    assert f"at most {MOST_PARAMETERS} parameters" in refused.text


async def test_the_description_names_every_part_of_a_query(web: httpx.AsyncClient) -> None:
    listing = (await web.get("/api/openapi.json")).json()["paths"]["/api/evaluations"]["get"]
    assert [each["name"] for each in listing["parameters"]] == list(QUERY)


async def test_a_page_tells_what_is_wrong_with_its_query(web: httpx.AsyncClient) -> None:
    response = await web.get("/evaluations?label=build")
    assert response.status_code == 400
    assert "key=value" in response.text


def test_figures_are_of_every_evaluation_named_with_prices_and_targets() -> None:
    query = [("evaluation", each) for each in ("e1", "e2", "e3")]
    more = [("price", "a=3.06"), ("most_latency_ns", "1e7"), ("most_cost", "")]
    found = figures_of([*query, *more])
    assert (found.first, found.second, found.others) == ("e1", "e2", ("e3",))
    assert (found.prices, found.most_latency_ns, found.most_cost) == ({"a": 3.06}, 1e7, None)
    assert found.figures


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ([("evaluation", "e1")], "second"),
        ([("evaluation", "e1"), ("evaluation", "e2"), ("price", "a")], "price"),
        ([("evaluation", "e1"), ("evaluation", "e2"), ("price", "a=-1")], "prices.a"),
        ([("evaluation", "e1"), ("evaluation", "e2"), ("spoons", "3")], "spoons"),
    ],
)
def test_a_wrong_query_for_figures_names_its_field(
    query: list[tuple[str, str]], field: str
) -> None:
    with pytest.raises(MalformedMessage) as caught:
        figures_of(query)
    assert caught.value.field == field


@pytest.mark.parametrize("price", ["x", "", "=3", "a=", "a=much"])
def test_a_price_says_whose_it_is(price: str) -> None:
    with pytest.raises(MalformedMessage) as caught:
        figures_of([("price", price)])
    assert (caught.value.field, caught.value.found) == ("price", price)
    assert caught.value.expected.startswith("agent=dollars")


@pytest.mark.parametrize("value", ["3", "red", ""])
def test_an_unknown_parameter_is_told_the_known_ones(value: str) -> None:
    with pytest.raises(MalformedMessage) as caught:
        figures_of([("colour", value)])
    assert caught.value.field == "colour"
    assert all(name in caught.value.expected for name in FIGURES)
