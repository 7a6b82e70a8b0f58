"""`mlscope ls`: evaluations under the constraints of requests, and what the catalog holds."""

import argparse
import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from cli import exits
from cli.commands.asking import client_of
from cli.failures import Misused
from cli.output import Rows, rows_of, write_rows
from cli.request import system_of, texts_of
from cli.roofs import roof_records
from mlscope.client.quantities import counted, shown
from mlscope.manifests.constraints import constraint_of, meet
from mlscope.manifests.errors import BadConstraint
from mlscope.manifests.figures import figures_of
from mlscope.manifests.variants import frameworks_of
from schemas.agent import Announcement
from schemas.manifest import HardwareManifest, ModelManifest, SoftwareManifest
from schemas.status import AgentStatus, Catalog, EvaluationStatus

Record = dict[str, Any]

_LISTED = ("evaluation", "state", "model", "framework", "requested", "agents")
"""What a terminal has room for: an address is the gateway's and the evaluation's id."""

_SHARED = ("framework",)
_OF_EVALUATIONS = (
    *("limit", "model", "model_version", "state", "agent", "device", "need", "label"),
    *_SHARED,
)
_OF_MODELS = ("task", *_SHARED)


def ls(arguments: argparse.Namespace) -> int:
    """List evaluations, or one kind of the catalog."""
    _check_options(arguments)
    return asyncio.run(_ls(arguments))


async def _ls(arguments: argparse.Namespace) -> int:
    async with client_of(arguments) as client:
        if arguments.kind == "evaluations":
            found = await client.evaluations(**constraints_of(arguments))
            rows = sought(evaluation_rows(found), {"": arguments.search})
            if arguments.output == "table":
                rows = shown_evaluations(rows)
        else:
            catalog = await client.catalog(arguments.kind.removesuffix("s"))
            listed = catalog.model_copy(
                update={"models": offered(catalog.models, arguments.framework)}
            )
            rows = sought(catalog_rows(listed, arguments.kind), _wanted(arguments))
            if arguments.output == "table":
                rows = _SHOWN.get(arguments.kind, replace)(rows)
    write_rows(rows, arguments.output)
    return exits.OK


def constraints_of(arguments: argparse.Namespace) -> Record:
    """Return the fields of `ListEvaluations` that the arguments name. Raises Misused."""
    name, colon, version = arguments.model.partition(":")
    if colon and arguments.model_version:
        raise Misused(f"--model {arguments.model} has a constraint: leave --model-version out")
    version = version or arguments.model_version
    fields = {
        "limit": arguments.limit,
        "model": f"{name}:{version}" if version else name,
        "state": arguments.state,
        "framework": arguments.framework or None,
        "agents": arguments.agent,
        "system": system_of(arguments),
        "labels": texts_of("--label", arguments.label),
    }
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


def _check_options(arguments: argparse.Namespace) -> None:
    """Raise Misused for an option of another kind, which would say nothing."""
    known = {"evaluations": _OF_EVALUATIONS, "models": _OF_MODELS}
    for name in dict.fromkeys((*_OF_EVALUATIONS, *_OF_MODELS)):
        if getattr(arguments, name) and name not in known.get(arguments.kind, ()):
            kinds = " and ".join(kind for kind, names in known.items() if name in names)
            option = f"--{name.replace('_', '-')}"
            raise Misused(f"{option} is of {kinds}, not of {arguments.kind}")


def _wanted(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the words sought, by column; those of `` may be in any."""
    return {"": arguments.search, "task": arguments.task}


def offered(models: Sequence[ModelManifest], framework: str) -> tuple[ModelManifest, ...]:
    """Return the models that are no secret and run on `NAME[:CONSTRAINT]`, '' for any.

    NAME may be a part of a framework's. Raises Misused for no constraint.
    """
    name, _, text = framework.partition(":")
    try:
        constraint = constraint_of(text)
    except BadConstraint as error:
        raise Misused(f"--framework {framework}: {error}") from None

    def fits(model: ModelManifest) -> bool:
        return any(
            name.casefold() in need.name.casefold()
            and meet(constraint_of(need.version), constraint)
            for need in frameworks_of(model)
        )

    return tuple(model for model in models if not model.hidden and fits(model))


def sought(rows: Rows, wanted: Mapping[str, str]) -> Rows:
    """Return the rows that hold each text in its column, that of `` in any; case is ignored."""

    def holds(row: Sequence[Any], column: str, text: str) -> bool:
        cells = row if not column else [row[rows.columns.index(column)]]
        return any(text.casefold() in str(cell).casefold() for cell in cells)

    texts = [(column, text) for column, text in wanted.items() if text]
    kept = (row for row in rows.rows if all(holds(row, *each) for each in texts))
    return replace(rows, rows=tuple(kept))


def evaluation_rows(found: Sequence[EvaluationStatus]) -> Rows:
    """Return evaluations as rows, newest first."""
    records = [
        {
            "evaluation": each.evaluation,
            "state": each.state,
            "model": each.model,
            "framework": each.framework,
            "device": each.device,
            "requested": when(each.requested_ns),
            "agents": ",".join(each.agents),
            "labels": labelled(each.labels),
            "address": each.address,
        }
        for each in found
    ]
    columns = ("evaluation", "state", "model", "framework", "device", "requested", "agents")
    return rows_of(records, (*columns, "labels", "address"))


def shown_evaluations(rows: Rows) -> Rows:
    """Return evaluations as a terminal has room for."""
    records = [dict(zip(rows.columns, row, strict=True)) for row in rows.rows]
    for record in records:
        record["requested"] = record["requested"].replace("T", " ").rstrip("Z")
    return replace(rows_of(records, _LISTED), folds=True)


def catalog_rows(catalog: Catalog, kind: str) -> Rows:
    """Return one kind of the catalog as rows."""
    columns, record_of = KINDS[kind]
    return rows_of([record_of(each) for each in getattr(catalog, kind)], columns)


def shown_agents(rows: Rows) -> Rows:
    """Return agents as a terminal has room for: shares beside their wholes, long texts folded."""
    records = [dict(zip(rows.columns, row, strict=True)) for row in rows.rows]
    for record in records:
        for name in ("cores", "memory"):
            record[name] = _of_host(record[name], record[f"host_{name}"])
    columns = ["agent", "state", "cores", "memory", "cpu", "frameworks"]
    columns += [n for n in ("accelerators", "labels") if any(record[n] for record in records)]
    return replace(rows_of(records, columns), folds=True)


def shown_models(rows: Rows) -> Rows:
    """Return models as a terminal has room for: what they are and how large, counts in short."""
    records = [dict(zip(rows.columns, row, strict=True)) for row in rows.rows]
    for record in records:
        record["parameters"] = counted(record["parameters"])
    columns = ("model", "version", "task", "framework", "accuracy", "parameters")
    return rows_of(records, columns)


_SHOWN: Mapping[str, Callable[[Rows], Rows]] = MappingProxyType(
    {"agents": shown_agents, "models": shown_models}
)


def _of_host(share: object, host: object) -> str:
    is_share = host not in (None, shown(None)) and str(host) != str(share)
    return f"{share} of {host}" if is_share else str(share)


def _agent(agent: AgentStatus) -> Record:
    told, has = agent.announcement, agent.announcement.hardware
    return {
        "agent": told.agent,
        "state": agent.state,
        "frameworks": _frameworks(told),
        "devices": ",".join(sorted({d for each in told.runtimes for d in each.devices})),
        "cpu": has.cpu_model or has.architecture,
        "cores": has.cores,
        "host_cores": has.host_cores or None,
        "memory": shown(has.memory_bytes, "By"),
        "host_memory": shown(has.host_memory_bytes or None, "By"),
        "accelerators": ", ".join(each.name for each in has.accelerators),
        "roofs": roof_records(has),
        "labels": labelled(told.labels),
    }


def _frameworks(told: Announcement) -> str:
    return " ".join(f"{each.framework}:{each.version}" for each in told.runtimes)


def labelled(labels: Mapping[str, str]) -> str:
    """Return labels as they are written on a command line."""
    return " ".join(f"{name}={value}" for name, value in labels.items())


def _model(model: ModelManifest) -> Record:
    needs, figures = frameworks_of(model), figures_of(model)
    return {
        "model": model.name,
        "version": model.version,
        "task": model.task,
        "framework": ", ".join(f"{need.name} {need.version}".strip() for need in needs),
        "dataset": model.dataset,
        "accuracy": figures.accuracy,
        "metric": figures.source(),
        "parameters": figures.parameters,
        "size_bytes": figures.size_bytes,
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
    if dataset.source is not None:
        made = dataset.source.samples
    return {
        **_named(dataset),
        "modality": dataset.modality,
        "samples": made or len(dataset.samples),
    }


def _scenario(scenario: Any) -> Record:
    defaults = " ".join(f"{key}={value}" for key, value in scenario.parameters.items())
    return {**_named(scenario), "parameters": defaults}


def _hardware(machine: HardwareManifest) -> Record:
    memory = shown(machine.memory_bytes or None, "By")
    return {**_named(machine), "architecture": machine.architecture, "memory": memory}


def _software(software: SoftwareManifest) -> Record:
    packages = " ".join(f"{name} {version}" for name, version in software.packages.items())
    return {**_named(software), "container": software.container, "packages": packages}


_AGENT_COLUMNS = (
    *("agent", "state", "frameworks", "devices", "cpu", "cores", "host_cores"),
    *("memory", "host_memory", "accelerators", "roofs", "labels"),
)
_MODEL_COLUMNS = (
    *("model", "version", "task", "framework", "dataset", "accuracy", "metric"),
    *("parameters", "size_bytes", "description"),
)
KINDS: Mapping[str, tuple[tuple[str, ...], Callable[[Any], Record]]] = MappingProxyType(
    {
        "agents": (_AGENT_COLUMNS, _agent),
        "models": (_MODEL_COLUMNS, _model),
        "frameworks": (("name", "version", "description"), _named),
        "datasets": (("name", "version", "modality", "samples", "description"), _dataset),
        "scenarios": (("name", "version", "parameters", "description"), _scenario),
        "hardware": (("name", "version", "architecture", "memory", "description"), _hardware),
        "software": (("name", "version", "container", "packages", "description"), _software),
    }
)
"""Columns of each kind of the catalog, and what makes a record of one."""


def when(epoch_ns: int) -> str:
    """Return a time as UTC to the second, '' for none."""
    if not epoch_ns:
        return ""
    return f"{datetime.fromtimestamp(epoch_ns / 1e9, UTC):%Y-%m-%dT%H:%M:%SZ}"
