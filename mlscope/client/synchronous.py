"""`Client`: the same as `AsyncClient`, for code without an event loop."""

import asyncio
import threading
from collections.abc import Coroutine, Generator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from mlscope.bus.bus import Bus
from mlscope.client.asynchronous import AsyncClient, AsyncEvaluation
from mlscope.client.notebook import evaluation_html
from mlscope.client.predicting import Files, Predicted
from mlscope.client.results import ListedEvaluations, ResultTable, ResultTables
from mlscope.client.tracing import MOST_SPANS
from mlscope.client.watching import Progress
from mlscope.exchange.traces import Trace
from mlscope.old_names import accepting_old_names
from schemas.analysis import Compared, Predictions
from schemas.exploration import Explored
from schemas.manifest import Manifest
from schemas.request import Evaluate
from schemas.status import Catalog, EvaluationStatus, Matched

T = TypeVar("T")


class _Loop:
    """An event loop in a thread of its own; `run` waits for what it is given."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="mlscope-client", daemon=True
        )
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result; Ctrl-C ends the work as well."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5.0)
        if not self._thread.is_alive():
            self._loop.close()


class Client:
    """A requester's view of mlscope; connects at once. Use as `with Client() as client`.

    Arguments as for `AsyncClient`. Safe to share between threads.
    """

    def __init__(
        self,
        *,
        url: str = "",
        seed_file: str | Path = "",
        data: str | Path = "",
        bus: Bus | None = None,
    ) -> None:
        """Connect. `url`, `seed_file`, `data` and `bus` are as for `AsyncClient`.

        Raises NoCluster, NotAnswering, InvalidSetting.
        """
        self._loop = _Loop()
        self._client = AsyncClient(url=url, seed_file=seed_file, data=data, bus=bus)
        with ExitStack() as undo:
            undo.callback(self._loop.close)
            self._loop.run(self._client.__aenter__())
            undo.pop_all()

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(self, *_: object) -> None:
        """Disconnect."""
        self.close()

    def close(self) -> None:
        """Disconnect."""
        self._loop.run(self._client.__aexit__(None, None, None))
        self._loop.close()

    def run(self, model: str | Mapping[str, Any], **request: Any) -> "Evaluation":
        """Ask for an evaluation; `request` are the fields of `Evaluate`.

        Raises EvaluationRefused, NotAnswering, Denied.
        """
        return Evaluation(self, self.wait_for(self._client.run(model, **request)))

    def evaluate(self, request: Evaluate) -> "Evaluation":
        """Ask for an evaluation. Raises as `run`."""
        return Evaluation(self, self.wait_for(self._client.evaluate(request)))

    def match(self, model: str | Mapping[str, Any], **request: Any) -> Matched:
        """Return which agents could run an evaluation, why others cannot, and how many runs it has.

        Arguments as for `run`; nothing is recorded or started. Raises EvaluationRefused.
        """
        return self.wait_for(self._client.match(model, **request))

    def evaluation(self, evaluation: str) -> "Evaluation":
        """Return a handle on an evaluation that exists. Raises CommandRefused."""
        return Evaluation(self, self.wait_for(self._client.evaluation(evaluation)))

    def cancel(self, evaluation: str, reason: str = "") -> None:
        """End an evaluation now; what was measured is kept. Raises CommandRefused."""
        self.wait_for(self._client.cancel(evaluation, reason))

    def evaluations(self, **constraints: Any) -> ListedEvaluations:
        """Return the newest evaluations that fit, newest first. Arguments as of `AsyncClient`."""
        return self.wait_for(self._client.evaluations(**constraints))

    def catalog(self, kind: str = "", name: str = "", version: str = "") -> Catalog:
        """Return agents and manifests known now; `kind` and `name` narrow it down.

        Of manifests those stay whose version fits `version`, as `>=1.2 <2`. Raises CommandRefused.
        """
        return self.wait_for(self._client.catalog(kind, name, version))

    def publish(self, manifest: Manifest | Mapping[str, Any]) -> None:
        """Put a manifest into the catalog. Raises CommandRefused, MalformedMessage."""
        self.wait_for(self._client.publish(manifest))

    def withdraw(self, kind: str, name: str, version: str) -> None:
        """Take the manifest of this `kind`, `name` and exact `version` out of the catalog.

        Raises CommandRefused.
        """
        self.wait_for(self._client.withdraw(kind, name, version))

    def set_price(self, agent: str, dollars_per_hour: float | None) -> None:
        """Keep what an hour on an `agent` costs for comparisons of costs; None forgets it.

        Raises CommandRefused.
        """
        self.wait_for(self._client.set_price(agent, dollars_per_hour))

    def tables(self, evaluation: str, *names: str) -> ResultTables:
        """Return an evaluation's tables, all or those named. Raises CommandRefused."""
        return self.wait_for(self._client.tables(evaluation, *names))

    @accepting_old_names(most="limit")  # its name until release 0.3
    def predictions(self, evaluation: str, run: str = "", limit: int = 0) -> Predictions:
        """Return what the model answered in `evaluation`, of one `run` ('': all).

        `limit` bounds their number; 0 is all. Raises CommandRefused.
        """
        return self.wait_for(self._client.predictions(evaluation, run, limit))

    @accepting_old_names(most="limit")  # its name until release 0.3
    def trace(self, evaluation: str, run: str = "", limit: int = MOST_SPANS) -> Trace:
        """Return the first `limit` spans of a run of `evaluation`, 0 is all.

        Without the name of the `run` it is the one traced deepest. Raises CommandRefused.
        """
        return self.wait_for(self._client.trace(evaluation, run, limit))

    def flow(self, evaluation: str) -> list[dict[str, Any]]:
        """Return an evaluation's facts in their order, batches left out. Raises CommandRefused."""
        return self.wait_for(self._client.flow(evaluation))

    def compare(self, first: str, second: str) -> Compared:
        """Return how far two evaluations' answers are apart. Raises CommandRefused."""
        return self.wait_for(self._client.compare(first, second))

    def figures(self, *evaluations: str, **terms: Any) -> Compared:
        """Return the figures of evaluations side by side. Raises CommandRefused."""
        return self.wait_for(self._client.figures(*evaluations, **terms))

    def explore(self, table: str = "", **constraints: Any) -> Explored:
        """Return the newest figures of many evaluations as a table. Raises CommandRefused."""
        return self.wait_for(self._client.explore(table, **constraints))

    def predict(
        self, model: str | Mapping[str, Any], files: Files, **request: Any
    ) -> list[Predicted]:
        """Return what a model answers to files. Raises as `AsyncClient.predict`."""
        return self.wait_for(self._client.predict(model, files, **request))

    def watch(self, evaluation: str) -> Generator[Progress, None, None]:
        """Yield where an evaluation is until it ended."""
        steps = self._client.watch(evaluation)
        # A step that Ctrl-C interrupts is still ending when the steps are closed.
        turn = asyncio.Lock()

        async def following() -> Progress | None:
            async with turn:
                return await anext(steps, None)

        async def close() -> None:
            async with turn:
                await steps.aclose()

        try:
            while (progress := self.wait_for(following())) is not None:
                yield progress
        finally:
            self.wait_for(close())

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what a coroutine of the async client gives."""
        return self._loop.run(work)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A handle on one accepted evaluation."""

    client: Client
    handle: AsyncEvaluation

    @property
    def id(self) -> str:
        """The evaluation's id."""
        return self.handle.id

    @property
    def address(self) -> str:
        """The evaluation's page."""
        return self.handle.address

    @property
    def repeated(self) -> bool:
        """Whether the request's key was known already."""
        return self.handle.repeated

    def watch(self) -> Generator[Progress, None, None]:
        """Yield where it is, at once and with every change, until it ended."""
        return self.client.watch(self.id)

    def wait(self, timeout_s: float | None = None) -> EvaluationStatus:
        """Return the status at the end. Raises StillRunning after `timeout_s`."""
        return self.client.wait_for(self.handle.wait(timeout_s))

    def status(self) -> EvaluationStatus:
        """Return where it is."""
        return self.client.wait_for(self.handle.status())

    def cancel(self, reason: str = "") -> None:
        """End it now."""
        self.client.wait_for(self.handle.cancel(reason))

    def tables(self, *names: str) -> ResultTables:
        """Return its tables, all or those named."""
        return self.client.wait_for(self.handle.tables(*names))

    def table(self, name: str) -> ResultTable:
        """Return one table. Raises NoSuchTable."""
        return self.client.wait_for(self.handle.table(name))

    @accepting_old_names(most="limit")  # its name until release 0.3
    def trace(self, run: str = "", limit: int = MOST_SPANS) -> Trace:
        """Return the first `limit` spans of a `run`, 0 is all; '' is the run traced deepest.

        `.polars()` of it is a frame. Raises CommandRefused.
        """
        return self.client.wait_for(self.handle.trace(run, limit))

    def _repr_html_(self) -> str:
        """Return what a notebook shows: where it is now, and its runs."""
        return evaluation_html(self.status())
