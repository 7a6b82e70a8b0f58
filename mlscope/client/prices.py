"""Prices of agents that the registry keeps, in questions about costs."""

from typing import TypeVar

from mlscope.bus.bus import Bus
from mlscope.client.asking import ask_for
from mlscope.client.errors import ClientError
from schemas.exploration import Explore
from schemas.price import Price
from schemas.request import Compare, ShowCatalog
from schemas.status import Catalog

C = TypeVar("C", Compare, Explore)


async def kept_prices(bus: Bus) -> dict[str, Price]:
    """Return the prices that are kept, by agent, as asked for over `bus`.

    Without an answer there are none: costs of other prices can be computed all the same.
    """
    try:
        return (await ask_for(bus, ShowCatalog(kind="price"), Catalog)).prices
    except ClientError:
        return {}


async def with_kept_prices(bus: Bus, command: C) -> C:
    """Return a `command` with the stored prices, from `bus`, of agents whose price it omits."""
    prices = {agent: price.dollars_per_hour for agent, price in (await kept_prices(bus)).items()}
    return command.model_copy(update={"prices": {**prices, **command.prices}})
