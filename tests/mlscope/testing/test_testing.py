"""The example that the package shows to authors of plug-ins runs as it stands."""

import textwrap
from typing import Any

import mlscope.testing.memory_bus


async def test_the_example_of_the_package_runs() -> None:
    documentation = mlscope.testing.__doc__ or ""
    lines = [line for line in documentation.splitlines() if line.startswith("    ") or not line]
    names: dict[str, Any] = {}
    exec(textwrap.dedent("\n".join(lines)), names)
    await names["test_my_service_answers"]()


async def test_the_bus_in_memory_is_where_release_0_1_had_it_too() -> None:
    from mlscope.bus.memory import MemoryServer, connect

    async with connect(MemoryServer(), "test") as bus:
        assert isinstance(bus, mlscope.testing.memory_bus.MemoryBus)
