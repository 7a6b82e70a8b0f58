"""The six services. Each is a process of its own, may run several times, may die at any moment.

Every service has the same shape:

    __init__.py   owns, hears, says, does not know
    state.py …    pure: `evolve(state, recorded) -> state`, `decide(state, …) -> facts`
    store.py …    I/O in files whose names say so
    service.py    the loop around them: `async def serve(bus, settings) -> None`

No service imports or calls another.
"""
