"""`mlscope agents price`: kept once, it counts in comparisons that name no other."""

from tests.cli.conftest import CommandLine
from tests.services.gateway.pages.test_home import an_agent
from tests.stand_ins import StandIns


async def test_a_price_is_kept_used_and_forgotten(mlscope: CommandLine, standing: StandIns) -> None:
    standing.agents = (an_agent(),)
    kept = await mlscope("agents", "price", "a1", "3.06")
    assert (kept.code, kept.out) == (0, "an hour on a1 costs $3.06\n"), kept.err
    assert [row["price"] for row in (await mlscope("agents", "-o", "json")).json()] == ["$3.06/h"]
    await mlscope("compare", "e1", "e2", "--figures")
    await mlscope("compare", "e1", "e2", "--price", "a1=1")
    assert [each.prices for each in standing.compared] == [{"a1": 3.06}, {"a1": 1.0}]
    assert (await mlscope("agents", "price", "a1")).out == "a1 has no price\n"
    assert standing.catalog["prices"] == {}
