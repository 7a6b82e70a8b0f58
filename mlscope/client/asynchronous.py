"""`AsyncClient`: evaluate, watch and read over one bus connection."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from mlscope.bus.bus import Bus
from mlscope.client.asking import ask, ask_for, command_of, whole_tables
from mlscope.client.connection import open_bus
from mlscope.client.errors import CommandRefused, StillRunning
from mlscope.client.predicting import (
    Files,
    Predicted,
    comparison_of,
    exploration_of,
    figures_of,
    files_as_uploads,
    matched,
    predictions_of,
    requests_of,
)
from mlscope.client.results import ListedEvaluations, ResultTable, ResultTables
from mlscope.client.scenario_texts import with_scenarios
from mlscope.client.short_ids import whole_id, whole_place
from mlscope.client.tracing import MOST_SPANS, flow_of, trace_of
from mlscope.client.watching import Progress, watch
from mlscope.exchange.traces import Trace
from mlscope.old_names import accepting_old_names
from schemas.analysis import Compared, Predictions
from schemas.exploration import Explored
from schemas.manifest import Manifest
from schemas.price import SetPrice
from schemas.publishing import PublishManifest, WithdrawManifest
from schemas.request import (
    Accepted,
    Cancel,
    Evaluate,
    ListEvaluations,
    Match,
    ShowCatalog,
    ShowEvaluation,
)
from schemas.status import Catalog, EvaluationList, EvaluationStatus, Matched


class AsyncClient:
    """A requester's view of mlscope. Use as `async with AsyncClient() as client`.

    Without arguments it reads MLSCOPE_NATS_URL and MLSCOPE_NATS_SEED_FILE, else finds the local
    cluster in its data folder (`data`, MLSCOPE_DATA, `.mlscope`). A `bus` given is used as it is.
    """

    def __init__(
        self,
        *,
        url: str = "",
        seed_file: str | Path = "",
        data: str | Path = "",
        bus: Bus | None = None,
    ) -> None:
        """Say where the cluster is, or give a connection.

        `url` is the NATS server's (`nats://host:4222`), `seed_file` the path of the nkey seed, and
        `data` the folder of a local cluster; '' is not given. `bus` is an open connection.
        """
        self._where = (url, str(seed_file), str(data))
        self._given = bus
        self._open = AsyncExitStack()
        self._bus: Bus | None = bus

    async def __aenter__(self) -> Self:
        """Connect. Raises NoCluster, NotAnswering, InvalidSetting."""
        if self._given is None:
            url, seed_file, data = self._where
            self._bus = await self._open.enter_async_context(
                open_bus(url=url, seed_file=seed_file, data=data)
            )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Disconnect; a bus that was given stays open."""
        await self._open.aclose()

    @property
    def bus(self) -> Bus:
        """The connection, once entered."""
        assert self._bus is not None, "use `async with AsyncClient() as client`"
        return self._bus

    async def run(self, model: str | Mapping[str, Any], **request: Any) -> "AsyncEvaluation":
        """Ask for an evaluation; `request` are the fields of `Evaluate`.

        Raises EvaluationRefused, also for a field that is wrong before anything is sent.
        """
        return await self.evaluate(request_of(model, request))

    async def evaluate(self, request: Evaluate) -> "AsyncEvaluation":
        """Ask for an evaluation. Raises EvaluationRefused, NotAnswering, Denied."""
        accepted = await ask_for(self.bus, request, Accepted)
        return AsyncEvaluation(self, accepted.evaluation, accepted.address, accepted.repeated)

    async def match(self, model: str | Mapping[str, Any], **request: Any) -> Matched:
        """Return which agents could run an evaluation, why others cannot, and how many runs it has.

        Arguments as for `run`; nothing is recorded or started. Raises EvaluationRefused.
        """
        fields = {"model": model, **with_scenarios(request)}
        return await ask_for(self.bus, command_of(Match, fields), Matched)

    async def evaluation(self, evaluation: str) -> "AsyncEvaluation":
        """Return a handle on an evaluation that exists. Raises CommandRefused."""
        status = await self.status(evaluation)
        return AsyncEvaluation(self, status.evaluation, status.address)

    async def status(self, evaluation: str) -> EvaluationStatus:
        """Return where an evaluation is; its id may be shortened. Raises CommandRefused."""
        command = command_of(ShowEvaluation, {"evaluation": await self.whole_id(evaluation)})
        return await ask_for(self.bus, command, EvaluationStatus)

    async def cancel(self, evaluation: str, reason: str = "") -> None:
        """End an evaluation now; what was measured is kept. Raises CommandRefused."""
        fields = {"evaluation": await self.whole_id(evaluation), "reason": reason}
        await ask(self.bus, command_of(Cancel, fields))

    async def evaluations(self, **constraints: Any) -> ListedEvaluations:
        """Return the newest evaluations that fit, newest first. Raises CommandRefused.

        `constraints` are the fields of `ListEvaluations`: limit (50), model (`name:>=1`), state,
        framework (`onnxruntime:>=1.16`), system, agents, labels, predictions (also those of
        `predict`).
        """
        command = command_of(ListEvaluations, constraints)
        listed = await ask_for(self.bus, command, EvaluationList)
        return ListedEvaluations(listed.evaluations)

    async def catalog(self, kind: str = "", name: str = "", version: str = "") -> Catalog:
        """Return agents and manifests known now; `kind` and `name` narrow it down.

        Of manifests those stay whose version fits `version`, as `>=1.2 <2`. Raises CommandRefused.
        """
        command = command_of(ShowCatalog, {"kind": kind, "name": name, "version": version})
        return await ask_for(self.bus, command, Catalog)

    async def publish(self, manifest: Manifest | Mapping[str, Any]) -> None:
        """Put a manifest into the catalog. Raises CommandRefused."""
        await ask(self.bus, command_of(PublishManifest, {"manifest": manifest}))

    async def withdraw(self, kind: str, name: str, version: str) -> None:
        """Take the manifest of this `kind`, `name` and exact `version` out of the catalog.

        Raises CommandRefused.
        """
        fields = {"kind": kind, "name": name, "version": version}
        await ask(self.bus, command_of(WithdrawManifest, fields))

    async def set_price(self, agent: str, dollars_per_hour: float | None) -> None:
        """Keep what an hour on an `agent` costs for comparisons of costs; None forgets it.

        Raises CommandRefused.
        """
        fields = {"agent": agent, "dollars_per_hour": dollars_per_hour}
        await ask(self.bus, command_of(SetPrice, fields))

    async def tables(self, evaluation: str, *names: str) -> ResultTables:
        """Return an evaluation's tables, all or those named. Raises CommandRefused."""
        evaluation_id = await self.whole_id(evaluation)
        return ResultTables(await whole_tables(self.bus, evaluation_id, names))

    @accepting_old_names(most="limit")  # its name until release 0.3
    async def predictions(self, evaluation: str, run: str = "", limit: int = 0) -> Predictions:
        """Return what the model answered in `evaluation`, of one `run` ('': all).

        `limit` bounds their number; 0 is all. Raises CommandRefused.
        """
        return await predictions_of(self.bus, await self.whole_id(evaluation), run, limit)

    @accepting_old_names(most="limit")  # its name until release 0.3
    async def trace(self, evaluation: str, run: str = "", limit: int = MOST_SPANS) -> Trace:
        """Return the first `limit` spans of a run of `evaluation`, 0 is all.

        Without the name of the `run` it is the one traced deepest. Raises CommandRefused.
        """
        return await trace_of(self.bus, await self.whole_id(evaluation), run, limit)

    async def flow(self, evaluation: str) -> list[dict[str, Any]]:
        """Return an evaluation's facts in their order, batches left out. Raises CommandRefused."""
        return await flow_of(self.bus, await self.whole_id(evaluation))

    async def compare(self, first: str, second: str) -> Compared:
        """Return how far two evaluations' answers are apart; each is `ID` or `ID/RUN`.

        Raises CommandRefused for what is not alike.
        """
        places = [await whole_place(self.bus, text) for text in (first, second)]
        return await comparison_of(self.bus, *places)

    async def figures(self, *evaluations: str, **terms: Any) -> Compared:
        """Return the figures of two or more evaluations side by side.

        `terms`: prices ($ an hour by agent), most_latency_ns, most_cost ($ a million inferences),
        least_accuracy. Raises CommandRefused.
        """
        evaluation_ids = [await self.whole_id(evaluation) for evaluation in evaluations]
        return await figures_of(self.bus, evaluation_ids, **terms)

    async def explore(self, table: str = "", **constraints: Any) -> Explored:
        """Return the newest figures of many evaluations as a table, such as accuracy_latency.

        `constraints`: task, model, framework, agent, device, scenario, and prices ($ an hour by
        agent). Without a table it is what there is to choose from. Raises CommandRefused.
        """
        return await exploration_of(self.bus, table, **constraints)

    async def predict(
        self, model: str | Mapping[str, Any], files: Files, **request: Any
    ) -> list[Predicted]:
        """Return what a model answers to files: paths, or bytes by name. In their order.

        A file that is no good has an `error`. `request` are further fields of `Evaluate`; only you
        and owners see the files and the answers, unless its `visibility` is "cluster". Raises
        EvaluationRefused, OSError for a path that can't be read.
        """
        uploads = files_as_uploads(files)
        predicted = {file.name: Predicted(file.name, error="the file is empty") for file in uploads}
        for some, fields in requests_of(uploads, request):
            evaluation = await self.run(model, **fields)
            status = await evaluation.wait()
            answers = None
            with suppress(CommandRefused):  # no run got as far as the database
                answers = await self.predictions(evaluation.id)
            predicted |= {answer.file: answer for answer in matched(some, status, answers)}
        return [predicted[file.name] for file in uploads]

    async def watch(self, evaluation: str) -> AsyncGenerator[Progress, None]:
        """Yield where an evaluation is until it ended; see `mlscope.client.watching`."""
        async with aclosing(watch(self.bus, await self.whole_id(evaluation))) as steps:
            async for progress in steps:
                yield progress

    async def whole_id(self, evaluation: str) -> str:
        """Return the id of the `evaluation` that begins with these four digits or more.

        Every method takes such a short id. Raises CommandRefused where several begin so.
        """
        return await whole_id(self.bus, evaluation)


@dataclass(frozen=True, slots=True)
class AsyncEvaluation:
    """A handle on one accepted evaluation; `repeated` says its key was known already."""

    client: AsyncClient
    id: str
    address: str
    repeated: bool = False

    def watch(self) -> AsyncGenerator[Progress, None]:
        """Yield where it is, at once and with every change, until it ended."""
        return self.client.watch(self.id)

    async def wait(self, timeout_s: float | None = None) -> EvaluationStatus:
        """Return the status at the end. Raises StillRunning after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self.follow(lambda _: None)
        except TimeoutError as error:
            raise StillRunning(self.id, timeout_s or 0.0) from error

    async def follow(self, show: Callable[[Progress], None]) -> EvaluationStatus:
        """Call `show` with every step and return the status at the end."""
        async with aclosing(self.watch()) as steps:
            async for progress in steps:
                show(progress)
        return progress.status

    async def status(self) -> EvaluationStatus:
        """Return where it is."""
        return await self.client.status(self.id)

    async def cancel(self, reason: str = "") -> None:
        """End it now."""
        await self.client.cancel(self.id, reason)

    async def tables(self, *names: str) -> ResultTables:
        """Return its tables, all or those named."""
        return await self.client.tables(self.id, *names)

    async def table(self, name: str) -> ResultTable:
        """Return one table. Raises NoSuchTable."""
        return (await self.tables(name))[name]

    @accepting_old_names(most="limit")  # its name until release 0.3
    async def trace(self, run: str = "", limit: int = MOST_SPANS) -> Trace:
        """Return the first `limit` spans of a `run`, 0 is all; '' is the run traced deepest.

        `.polars()` of it is a frame. Raises CommandRefused.
        """
        return await self.client.trace(self.id, run, limit)


def request_of(model: str | Mapping[str, Any], fields: Mapping[str, Any]) -> Evaluate:
    """Return the request; a wrong field is refused here as the scheduler would refuse it.

    Scenarios may be texts, as `poisson:rate_hz=20`. Raises EvaluationRefused.
    """
    return command_of(Evaluate, {"model": model, **with_scenarios(fields)})
