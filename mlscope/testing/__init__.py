"""Test support for people who write plug-ins: the bus in memory, without a NATS server. Public.

`mlscope.testing.memory_bus` implements the same protocol (`mlscope.bus.bus.Bus`) as the bus over
NATS and passes the same contract tests, so a plug-in tested with it works on a server. A test makes
one `MemoryServer`, and opens a bus on it for each service that takes part:

    from mlscope.bus.records import ReceivedCommand
    from mlscope.testing.memory_bus import MemoryServer, connect

    async def answer(command: ReceivedCommand) -> bytes:
        return command.body

    async def test_my_service_answers() -> None:
        server = MemoryServer()  # all streams, durables and buckets, empty
        async with connect(server, "my-service") as service, connect(server, "test") as test:
            await service.answer("mlscope.v1.request.mine", answer, queue=None)
            assert await test.ask("mlscope.v1.request.mine", b"hello") == b"hello"

`MemoryServer.stop()` and `start()` make the server unreachable and reachable again.
`MemoryServer(clock=...)` takes a clock of the test, so that leases, redelivery and time-outs need
no waiting: move the clock, then call `MemoryServer.wake()`.
"""
