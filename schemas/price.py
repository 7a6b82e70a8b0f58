"""Prices: what an hour on an agent costs, kept by the registry for comparisons of costs."""

from typing import Literal

from schemas.message import Command, Fact, Message
from schemas.request import Positive
from schemas.values.identity import Token

Dollars = Positive
"""US dollars; a price is above 0."""


class SetPrice(Command):
    """Keep what an hour on an agent costs, also one that is gone; None forgets it."""

    verb = "price"
    agent: Token
    dollars_per_hour: Dollars | None = None


class AgentPriced(Fact):
    """What an hour on an agent costs, as somebody said; None: not known any more.

    Published by the registry. `set_by` is the person who asked, '' for the cluster's user.
    """

    entity = "agent"
    happened = "priced"
    agent: Token
    dollars_per_hour: Dollars | None = None
    set_by: str = ""


class Price(Message):
    """What an hour on an agent costs, who said so ('': the cluster's user) and when (epoch ns)."""

    dollars_per_hour: Dollars
    set_by: str = ""
    since_ns: int = 0


class PriceKept(Message):
    """Answer to `price`; `repeated`: it was kept already."""

    accepted: Literal[True] = True
    agent: Token
    dollars_per_hour: Dollars | None = None
    repeated: bool = False
