"""Evaluations and entries of the catalog as rows, complete or short enough for a terminal."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import yaml

from cli.failures import Misused
from cli.printing.output import Rows, rows_of, write_json, write_rows
from cli.printing.roofs import roof_records, roof_texts
from mlscope.manifests.figures import accuracy_text, figures_of
from mlscope.manifests.fitting import Running
from mlscope.manifests.variants import frameworks_of
from mlscope.quantities import counted, shown
from schemas.manifest import (
    DatasetManifest,
    FrameworkManifest,
    HardwareManifest,
    ModelManifest,
    ScenarioManifest,
    SoftwareManifest,
)
from schemas.status import AgentStatus, Catalog, EvaluationStatus

Record = dict[str, Any]

_EVALUATION_COLUMNS = (
    "evaluation",
    "state",
    "model",
    "framework",
    "device",
    "requested",
    "requested_by",
    "agents",
    "labels",
    "address",
)
_EVALUATION_TERMINAL_COLUMNS = (
    "evaluation",
    "state",
    "model",
    "framework",
    "requested",
    "agents",
)
"""Without the address, which is the gateway's with the evaluation's id."""
_MODEL_TERMINAL_COLUMNS = (
    "model",
    "version",
    "task",
    "framework",
    "accuracy",
    "parameters",
    "runs_on",
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


def evaluation_rows(evaluations: Sequence[EvaluationStatus]) -> Rows:
    """Return evaluations as rows, newest first."""
    records = [
        {
            "evaluation": evaluation.evaluation,
            "state": evaluation.state,
            "model": evaluation.model,
            "framework": evaluation.framework,
            "device": evaluation.device,
            "requested": time_text(evaluation.requested_ns),
            "requested_by": evaluation.requested_by,
            "agents": ",".join(evaluation.agents),
            "labels": labels_text(evaluation.labels),
            "address": evaluation.address,
        }
        for evaluation in evaluations
    ]
    return rows_of(records, _EVALUATION_COLUMNS)


def evaluation_terminal_rows(rows: Rows) -> Rows:
    """Return rows of evaluations, short enough for a terminal."""
    records = _records_in(rows)
    for record in records:
        record["requested"] = record["requested"].replace("T", " ").rstrip("Z")
    columns = list(_EVALUATION_TERMINAL_COLUMNS)
    if any(record["requested_by"] for record in records):
        columns.insert(columns.index("requested") + 1, "requested_by")
    return replace(rows_of(records, columns), folds=True)


def agent_terminal_rows(rows: Rows) -> Rows:
    """Return rows of agents, short enough for a terminal: `4 of 16` cores, long texts wrapped."""
    records = _records_in(rows)
    for record in records:
        for name in ("cores", "memory"):
            share, host = str(record[name]), record[f"host_{name}"]
            is_part = host not in (None, shown(None)) and str(host) != share
            record[name] = f"{share} of {host}" if is_part else share
    columns = ["agent", "state", "cores", "memory", "cpu", "frameworks"]
    optional = ("accelerators", "labels", "containers")
    columns += [name for name in optional if any(record[name] for record in records)]
    return replace(rows_of(records, columns), folds=True)


def model_terminal_rows(rows: Rows) -> Rows:
    """Return rows of models, short enough for a terminal: `5.3 M` parameters."""
    records = _records_in(rows)
    for record in records:
        record["parameters"] = counted(record["parameters"])
        if record["accuracy"] is not None:  # as its source quotes it
            metric = str(record["metric"]).partition(" on ")[0]
            record["accuracy"] = accuracy_text(record["accuracy"], metric)
    return rows_of(records, _MODEL_TERMINAL_COLUMNS)


def described_terminal_rows(rows: Rows) -> Rows:
    """Return rows with the first sentence of their descriptions."""
    records = _records_in(rows)
    for record in records:
        record["description"] = _SENTENCE_END.split(record["description"], maxsplit=1)[0]
    return rows_of(records, rows.columns)


def _records_in(rows: Rows) -> list[Record]:
    return [dict(zip(rows.columns, row, strict=True)) for row in rows.rows]


TERMINAL_ROWS: Mapping[str, Callable[[Rows], Rows]] = MappingProxyType(
    {
        "agents": agent_terminal_rows,
        "models": model_terminal_rows,
        "frameworks": described_terminal_rows,
        "datasets": described_terminal_rows,
        "scenarios": described_terminal_rows,
        "hardware": described_terminal_rows,
        "software": described_terminal_rows,
    }
)
"""For each kind of the catalog the function that shortens rows for a terminal."""


def catalog_rows(catalog: Catalog, kind: str) -> Rows:
    """Return one of `KINDS` of the catalog as rows."""
    columns, record_of = KINDS[kind]
    return rows_of([record_of(entry) for entry in getattr(catalog, kind)], columns)


def with_running(rows: Rows, running: Sequence[Running]) -> Rows:
    """Return rows of models with what each is `running` on, and what no agent has for it."""
    columns = (*rows.columns, "runs_on", "missing")
    cells = ((places.text, places.reasons) for places in running)
    return replace(
        rows,
        columns=columns,
        rows=tuple((*row, *added) for row, added in zip(rows.rows, cells, strict=True)),
    )


def write_entries(entries: Catalog, form: str) -> None:
    """Print complete entries of the catalog: as YAML by default, as rows of `ls` in CSV.

    `form` is table, json or csv. Raises Misused for entries of several kinds in CSV.
    """
    kinds = [kind for kind in KINDS if getattr(entries, kind)]
    maps = [entry.model_dump(mode="json") for kind in kinds for entry in getattr(entries, kind)]
    if form == "json":
        write_json(maps)
        return
    if form == "table":
        for record, agent in zip(maps, entries.agents, strict=False):  # agents come first
            record["roofs"] = roof_texts(agent.announcement.hardware)
        print(yaml.safe_dump_all(maps, sort_keys=False, allow_unicode=True, width=80), end="")
        return
    if len(kinds) > 1:
        raise Misused(f"CSV has one kind, but there are {', '.join(kinds)}; -o json prints all")
    write_rows(catalog_rows(entries, kinds[0]), form)


def agent_record(agent: AgentStatus) -> Record:
    """Return an agent as a record."""
    announcement, hardware = agent.announcement, agent.announcement.hardware
    runtimes = announcement.runtimes
    return {
        "agent": announcement.agent,
        "state": agent.state,
        "frameworks": " ".join(f"{runtime.framework}:{runtime.version}" for runtime in runtimes),
        "devices": ",".join(sorted({name for runtime in runtimes for name in runtime.devices})),
        "cpu": hardware.cpu_model or hardware.architecture,
        "cores": hardware.cores,
        "host_cores": hardware.host_cores or None,
        "memory": shown(hardware.memory_bytes, "By"),
        "host_memory": shown(hardware.host_memory_bytes or None, "By"),
        "accelerators": ", ".join(accelerator.name for accelerator in hardware.accelerators),
        "roofs": roof_records(hardware),
        "labels": labels_text(announcement.labels),
        "containers": ",".join(own.image for own in announcement.containers if not own.reason),
    }


def model_record(model: ModelManifest) -> Record:
    """Return a model manifest as a record."""
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


def framework_record(framework: FrameworkManifest) -> Record:
    """Return a framework manifest as a record."""
    return {
        "name": framework.name,
        "version": framework.version,
        "description": framework.description,
    }


def dataset_record(dataset: DatasetManifest) -> Record:
    """Return a dataset manifest as a record."""
    samples = dataset.synthetic.samples if dataset.synthetic else 0
    if dataset.source is not None:
        samples = dataset.source.samples
    return {
        "name": dataset.name,
        "version": dataset.version,
        "modality": dataset.modality,
        "samples": samples or len(dataset.samples),
        "description": dataset.description,
    }


def scenario_record(scenario: ScenarioManifest) -> Record:
    """Return a scenario manifest as a record."""
    return {
        "name": scenario.name,
        "version": scenario.version,
        "parameters": labels_text(scenario.parameters),
        "description": scenario.description,
    }


def hardware_record(machine: HardwareManifest) -> Record:
    """Return a hardware manifest as a record."""
    return {
        "name": machine.name,
        "version": machine.version,
        "architecture": machine.architecture,
        "memory": shown(machine.memory_bytes or None, "By"),
        "description": machine.description,
    }


def software_record(software: SoftwareManifest) -> Record:
    """Return a software manifest as a record."""
    return {
        "name": software.name,
        "version": software.version,
        "container": software.container,
        "packages": " ".join(f"{name} {version}" for name, version in software.packages.items()),
        "description": software.description,
    }


_AGENT_COLUMNS = (
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
    "roofs",
    "labels",
    "containers",
)
_MODEL_COLUMNS = (
    "model",
    "version",
    "task",
    "framework",
    "dataset",
    "accuracy",
    "metric",
    "parameters",
    "size_bytes",
    "description",
)
_SOFTWARE_COLUMNS = ("name", "version", "container", "packages", "description")
KINDS: Mapping[str, tuple[tuple[str, ...], Callable[[Any], Record]]] = MappingProxyType(
    {
        "agents": (_AGENT_COLUMNS, agent_record),
        "models": (_MODEL_COLUMNS, model_record),
        "frameworks": (("name", "version", "description"), framework_record),
        "datasets": (("name", "version", "modality", "samples", "description"), dataset_record),
        "scenarios": (("name", "version", "parameters", "description"), scenario_record),
        "hardware": (
            ("name", "version", "architecture", "memory", "description"),
            hardware_record,
        ),
        "software": (_SOFTWARE_COLUMNS, software_record),
    }
)
"""The columns of each kind of the catalog, and the function that makes a record of an entry."""


def labels_text(labels: Mapping[str, Any]) -> str:
    """Return labels as on a command line: `name=value name=value`."""
    return " ".join(f"{name}={value}" for name, value in labels.items())


def time_text(epoch_ns: int) -> str:
    """Return a time as UTC to the second, '' for 0."""
    if not epoch_ns:
        return ""
    return f"{datetime.fromtimestamp(epoch_ns / 1e9, UTC):%Y-%m-%dT%H:%M:%SZ}"
