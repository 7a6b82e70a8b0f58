"""Both implementations offer the protocol, with its very parameters."""

import inspect

import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.nats.bus import NatsBus
from mlscope.testing.memory_bus import MemoryBus

METHODS = [name for name, each in vars(Bus).items() if callable(each) and name[0] != "_"]


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", [MemoryBus, NatsBus])
def test_a_bus_is_called_as_the_protocol_says(kind: type, name: str) -> None:
    wanted = inspect.signature(getattr(Bus, name)).parameters
    assert inspect.signature(getattr(kind, name)).parameters == wanted


@pytest.mark.parametrize("kind", [MemoryBus, NatsBus])
def test_a_bus_offers_nothing_else(kind: type) -> None:
    offered = {name for name, each in vars(kind).items() if callable(each) and name[0] != "_"}
    assert offered == set(METHODS)
