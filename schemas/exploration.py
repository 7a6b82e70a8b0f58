"""The command that explores the newest figures of many evaluations, and its answer."""

from pydantic import Field

from schemas.analysis import Table
from schemas.message import Command, Message
from schemas.request import Prices


class Explore(Command):
    """Explore the figures of all evaluations: those of each load where it was measured last.

    Empty constraints allow any. `table` names one of the explorations; without one the answer has
    the values of each constraint alone.
    """

    verb = "explore"
    table: str = Field(default="", max_length=64)
    task: str = Field(default="", max_length=200)
    #: `name` or `name:version`
    model: str = Field(default="", max_length=400)
    framework: str = Field(default="", max_length=200)
    agent: str = Field(default="", max_length=200)
    device: str = Field(default="", max_length=200)
    scenario: str = Field(default="", max_length=200)
    #: dollars an hour, by agent
    prices: Prices = Field(default_factory=dict)


class Explored(Message):
    """Answer to `explore`. `loads` are the loads that its table is made from, of `total_loads`.

    The table has as many of its `total_rows` as fit into the answer; the first are those of the
    newest loads.
    """

    table: Table | None = None
    #: the explorations: name and title of each
    tables: tuple[tuple[str, str], ...] = ()
    loads: int = 0
    total_loads: int = 0
    total_rows: int = 0
    #: the values that each constraint may have, over all evaluations
    choices: dict[str, tuple[str, ...]] = Field(default_factory=dict)
