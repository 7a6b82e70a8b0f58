"""Whether a connection has a server, and who waits for one."""

import pytest

from mlscope.bus.errors import Unreachable
from mlscope.bus.nats.connecting.availability import Availability


async def test_a_wait_without_a_server_ends_and_names_the_server() -> None:
    availability = Availability("nats://broker")
    with pytest.raises(Unreachable, match="nats://broker"):
        await availability.wait_up(0.0)


async def test_a_reconnect_wakes_who_asked_and_lets_callers_go_on() -> None:
    availability = Availability("")
    wakes: list[str] = []
    availability.on_reconnect(lambda: wakes.append("woken"))
    availability.opened()
    availability.lost()
    assert not availability.is_up
    availability.reconnected()
    assert availability.is_up
    assert wakes == ["woken"]
    await availability.wait_up(0.0)


async def test_after_the_end_nobody_waits_though_the_server_is_lost() -> None:
    availability = Availability("")
    availability.end()
    availability.lost()
    await availability.wait_up(0.0)
    assert availability.closed.is_set()
    assert not availability.is_up


async def test_who_no_longer_asks_is_not_woken() -> None:
    availability = Availability("")
    wakes: list[str] = []

    def wake() -> None:
        wakes.append("woken")

    availability.on_reconnect(wake)
    availability.off_reconnect(wake)
    availability.end()
    assert wakes == []
