"""Requests made from the OpenAPI document, right and nearly right: none is answered wrongly."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is in the extra dev")

from hypothesis import HealthCheck, Phase, given, seed, settings  # noqa: E402

from mlscope.testing.memory_bus import MemoryServer, connect  # noqa: E402
from services.gateway.openapi import document  # noqa: E402
from tests.services.gateway.conftest import serving_gateway  # noqa: E402
from tests.services.gateway.sent_files import kept_in  # noqa: E402
from tests.stand_ins import stand_ins  # noqa: E402
from tests.stories import whole_story  # noqa: E402

MODES: Any = schemathesis.GenerationMode


def cases() -> Iterator[tuple[str, Any]]:
    """Yield each operation with a mode; no wrong request is made where every text is right."""
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            if path == "/api/events":  # it has no end
                continue
            yield f"{method.upper()} {path}", MODES.POSITIVE
            schemas = [each["schema"] for each in operation["parameters"]]
            if "requestBody" in operation or any("pattern" in schema for schema in schemas):
                yield f"{method.upper()} {path}", MODES.NEGATIVE


CONFIG = {
    "checks": {
        # A refusal with its reason is right also where a schema cannot say what is allowed, and
        # where none of the stand-ins answers.
        "positive_data_acceptance": {"expected-statuses": ["2xx", 400, 404, 409, 413, 415, 503]},
        "not_a_server_error": {"expected-statuses": ["2xx", "3xx", "4xx", 503]},
    }
}
EXAMPLES = (4, pytest.param(40, marks=pytest.mark.long))


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Run a gateway in a thread, among stand-ins who know one evaluation; lend its schema."""
    address: Future[str] = Future()
    folder = tmp_path_factory.mktemp("sent")
    ended = threading.Event()

    async def serve() -> None:
        server = MemoryServer()
        async with connect(server, "gateway") as bus, stand_ins(server) as standing:
            await standing.tell(*whole_story())
            async with serving_gateway(bus, kept_in(folder)) as running:
                address.set_result(running.url)
                await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    config = schemathesis.Config.from_dict(CONFIG)
    try:
        url = f"{address.result(60)}/api/openapi.json"
        yield schemathesis.openapi.from_url(url, config=config)
    finally:
        ended.set()
        thread.join()


def limited_to(examples: int) -> settings:
    """Return Hypothesis' settings for so many examples, without limits of time and without a store.

    An example that fails is not made smaller.
    """
    return settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )


@pytest.mark.parametrize(("label", "mode"), list(cases()))
@pytest.mark.parametrize("examples", EXAMPLES)
def test_every_check_holds(schema: Any, examples: int, label: str, mode: Any) -> None:
    operation = schema.find_operation_by_label(label)

    @seed(14)
    @limited_to(examples)
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case: Any) -> None:
        case.call_and_validate(timeout=30)

    check()
