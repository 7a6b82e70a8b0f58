"""`mlscope ls`, `show` and `tables`: what there is."""

import argparse
import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import yaml

from cli import exits
from cli.commands.asking import client_of, failures_in, write_tables
from cli.commands.predictions import write_predictions
from cli.failures import Misused
from cli.output import Rows, rows_of, write_json, write_rows
from mlscope.client import AsyncClient, ClientError, CommandRefused
from mlscope.client.brief import FAILURES
from mlscope.client.quantities import shown
from schemas.analysis import Table
from schemas.status import AgentStatus, Catalog, EvaluationStatus

Record = dict[str, Any]

_LISTED = ("evaluation", "state", "model", "requested", "agents")
"""What a terminal has room for: an address is the gateway's and the evaluation's id."""


def ls(arguments: argparse.Namespace) -> int:
    """List evaluations, or one kind of the catalog."""
    return asyncio.run(_ls(arguments))


async def _ls(arguments: argparse.Namespace) -> int:
    async with client_of(arguments) as client:
        if arguments.kind == "evaluations":
            found = await client.evaluations(
                limit=arguments.limit, model=arguments.model, state=arguments.state
            )
            rows = sought(evaluation_rows(found), _wanted(arguments))
            if arguments.output == "table":
                rows = rows.kept(_LISTED)
        else:
            catalog = await client.catalog(arguments.kind.removesuffix("s"))
            rows = sought(catalog_rows(catalog, arguments.kind), _wanted(arguments))
    write_rows(rows, arguments.output)
    return exits.OK


def _wanted(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the words sought, by column; those of `` may be in any. Raises Misused."""
    wanted = {"": arguments.search, "task": arguments.task, "framework": arguments.framework}
    if arguments.kind != "models" and (arguments.task or arguments.framework):
        raise Misused("--task and --framework are of models: `mlscope ls models`")
    return {column: text for column, text in wanted.items() if text}


def sought(rows: Rows, wanted: Mapping[str, str]) -> Rows:
    """Return the rows that hold each text in its column, that of `` in any; case is ignored."""

    def holds(row: Sequence[Any], column: str, text: str) -> bool:
        cells = row if not column else [row[rows.columns.index(column)]]
        return any(text.casefold() in str(cell).casefold() for cell in cells)

    kept = (row for row in rows.rows if all(holds(row, *each) for each in wanted.items()))
    return replace(rows, rows=tuple(kept))


def evaluation_rows(found: Sequence[EvaluationStatus]) -> Rows:
    """Return evaluations as rows, newest first."""
    records = [
        {
            "evaluation": each.evaluation,
            "state": each.state,
            "model": each.model,
            "requested": _when(each.requested_ns),
            "agents": ",".join(each.agents),
            "address": each.address,
        }
        for each in found
    ]
    return rows_of(records, ("evaluation", "state", "model", "requested", "agents", "address"))


def catalog_rows(catalog: Catalog, kind: str) -> Rows:
    """Return one kind of the catalog as rows."""
    columns, record_of = _KINDS[kind]
    return rows_of([record_of(each) for each in getattr(catalog, kind)], columns)


def _agent(agent: AgentStatus) -> Record:
    told, has = agent.announcement, agent.announcement.hardware
    return {
        "agent": told.agent,
        "state": agent.state,
        "frameworks": " ".join(f"{each.framework}:{each.version}" for each in told.runtimes),
        "devices": ",".join(sorted({d for each in told.runtimes for d in each.devices})),
        "cpu": has.cpu_model or has.architecture,
        "cores": has.cores,
        "host_cores": has.host_cores or None,
        "memory": shown(has.memory_bytes, "By"),
        "host_memory": shown(has.host_memory_bytes or None, "By"),
        "accelerators": ", ".join(each.name for each in has.accelerators),
    }


def _model(model: Any) -> Record:
    need = model.framework
    return {
        "model": model.name,
        "version": model.version,
        "task": model.task,
        "framework": f"{need.name} {need.version}".strip(),
        "dataset": model.dataset,
        "description": model.description,
    }


def _named(manifest: Any) -> Record:
    return {
        "name": manifest.name,
        "version": manifest.version,
        "description": manifest.description,
    }


def _dataset(dataset: Any) -> Record:
    made = dataset.synthetic.samples if dataset.synthetic else 0
    return {
        **_named(dataset),
        "modality": dataset.modality,
        "samples": made or len(dataset.samples),
    }


def _scenario(scenario: Any) -> Record:
    defaults = " ".join(f"{key}={value}" for key, value in scenario.parameters.items())
    return {**_named(scenario), "parameters": defaults}


_KINDS: Mapping[str, tuple[tuple[str, ...], Callable[[Any], Record]]] = MappingProxyType(
    {
        "agents": (
            (
                "agent",
                "state",
                "frameworks",
                "devices",
                "cpu",
                "cores",
                "host_cores",
                "memory",
                "host_memory",
                "accelerators",
            ),
            _agent,
        ),
        "models": (("model", "version", "task", "framework", "dataset", "description"), _model),
        "frameworks": (("name", "version", "description"), _named),
        "datasets": (("name", "version", "modality", "samples", "description"), _dataset),
        "scenarios": (("name", "version", "parameters", "description"), _scenario),
    }
)


def show(arguments: argparse.Namespace) -> int:
    """Show an evaluation's runs, or everything the catalog says of a name."""
    return asyncio.run(_show(arguments))


async def _show(arguments: argparse.Namespace) -> int:
    async with client_of(arguments) as client:
        if arguments.predictions:
            await write_predictions(client, arguments.name, arguments.of_run, arguments.output)
            return exits.OK
        status = await _status_or_none(client, arguments.name)
        if status is not None:
            failures = await _failures(client, status)
            _print_evaluation(status, arguments.output, failures)
            return exits.OK
        catalog = await client.catalog()
    found = _found_in(catalog, arguments.name)
    if found == Catalog():
        raise Misused(f"nothing is called {arguments.name}; `mlscope ls` lists what there is")
    _print_found(found, arguments.output)
    return exits.OK


def _print_found(found: Catalog, form: str) -> None:
    """Print all that is known: as YAML to people, as rows of `ls` in CSV."""
    kinds = [kind for kind in _KINDS if getattr(found, kind)]
    maps = [each.model_dump(mode="json") for kind in kinds for each in getattr(found, kind)]
    if form == "json":
        write_json(maps)
    elif form == "table":
        print(yaml.safe_dump_all(maps, sort_keys=False, allow_unicode=True, width=80), end="")
    elif len(kinds) == 1:
        write_rows(catalog_rows(found, kinds[0]), form)
    else:
        raise Misused(f"CSV holds one kind, there are: {', '.join(kinds)}; -o json holds all")


async def _status_or_none(client: AsyncClient, name: str) -> EvaluationStatus | None:
    try:
        return await client.status(name)
    except CommandRefused:
        return None


def _found_in(catalog: Catalog, name: str) -> Catalog:
    """Return what has this name, or this name and version."""
    agents = tuple(each for each in catalog.agents if each.announcement.agent == name)
    named = {
        kind: tuple(e for e in getattr(catalog, kind) if name in (e.name, _full_name(e)))
        for kind in _KINDS
        if kind != "agents"
    }
    return Catalog(agents=agents, **named)


def _full_name(manifest: Any) -> str:
    return f"{manifest.name}:{manifest.version}"


async def _failures(client: AsyncClient, status: EvaluationStatus) -> list[Table]:
    """Return why queries of an evaluation failed; nothing while the tables cannot be had."""
    if FAILURES not in status.tables:
        return []
    try:
        return failures_in(await client.tables(status.evaluation, FAILURES))
    except ClientError as error:
        print(f"why queries failed: {error}", file=sys.stderr)
        return []


def _print_evaluation(status: EvaluationStatus, form: str, failures: list[Table]) -> None:
    if form == "json":
        maps = {each.name: Rows.of_table(each).maps() for each in failures}
        write_json(status.model_dump(mode="json") | maps)
        return
    if form == "table":
        for name, value in _told(status):
            print(f"{name:<12} {value}")
        print()
    columns = (
        "run",
        "scenario",
        "batch_size",
        "level",
        "agent",
        "attempt",
        "state",
        "answered",
        "failed_queries",
        "spans",
        "cause",
    )
    records = [run.model_dump(mode="json") for run in status.runs]
    write_rows(rows_of(records, columns), form)
    if form == "table" and failures:
        print()
        write_tables(failures, form)


def _told(status: EvaluationStatus) -> list[tuple[str, str]]:
    pairs = [
        ("evaluation", status.evaluation),
        ("state", status.state),
        ("model", status.model),
        ("requested", _when(status.requested_ns)),
        ("cause", status.cause),
        ("tables", " ".join(status.tables)),
        ("address", status.address),
    ]
    pairs += [(f"not {each.agent}", each.reason) for each in status.refusals]
    return [(name, value) for name, value in pairs if value]


def tables(arguments: argparse.Namespace) -> int:
    """Print an evaluation's tables: all, or those named."""
    return asyncio.run(_tables(arguments))


async def _tables(arguments: argparse.Namespace) -> int:
    async with client_of(arguments) as client:
        found = await client.tables(arguments.evaluation, *arguments.names)
        wanted = [found[name] for name in arguments.names] or list(found.values())
    if arguments.output == "json":
        write_json({each.name: Rows.of_table(each.table).maps() for each in wanted})
    else:
        write_tables([each.table for each in wanted], arguments.output)
    return exits.OK


def _when(epoch_ns: int) -> str:
    if not epoch_ns:
        return ""
    return f"{datetime.fromtimestamp(epoch_ns / 1e9, UTC):%Y-%m-%dT%H:%M:%SZ}"
