"""`mlscope ls`: lists evaluations by their properties, and the entries of the catalog."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from cli import exits
from cli.arguments.reading import KINDS
from cli.failures import Misused
from cli.inputs.connection import client_of
from cli.inputs.request import system_of, texts_of
from cli.printing.catalog import (
    TERMINAL_ROWS,
    catalog_rows,
    evaluation_rows,
    evaluation_terminal_rows,
    with_running,
)
from cli.printing.output import Rows, write_rows
from mlscope.manifests.constraints import constraint_of, meet
from mlscope.manifests.errors import BadConstraint
from mlscope.manifests.fitting import alike, running_of
from mlscope.manifests.variants import frameworks_of
from schemas.manifest import ModelManifest
from schemas.status import Catalog
from schemas.values.framework_names import predictors_name

_EVALUATION_OPTIONS = (
    "limit",
    "model",
    "model_version",
    "state",
    "agent",
    "device",
    "need",
    "label",
    "all",
)
_RUNNING_NOTE = "-o json says what is missing and how to install it; --runnable lists what runs now"
_HIDDEN_NOTE = "not listed: {} of `mlscope predict` and of models tried (--all lists them)"
_REFUSED_NOTE = "the registry refused a shipped manifest: {}: {}"
_KINDS_OF_OPTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **dict.fromkeys(_EVALUATION_OPTIONS, ("evaluations",)),
        "framework": ("evaluations", "models"),
        "task": ("models",),
        "runnable": ("models",),
    }
)


async def ls(arguments: argparse.Namespace) -> int:
    """List evaluations, or one kind of the catalog.

    Raises Misused for an option of another kind, which would have no effect, and without a kind.
    """
    kind: str = arguments.kind or ""
    if not kind:
        lines = (f"  {name:<13}{meaning}" for name, meaning in KINDS.items())
        raise Misused("\n".join(("KIND is missing: write one of these after `ls`", *lines)))
    for option, kinds in _KINDS_OF_OPTIONS.items():
        if getattr(arguments, option) and kind not in kinds:
            text = f"--{option.replace('_', '-')} applies to {' and '.join(kinds)}"
            raise Misused(f"{text}, not to {kind}")
    listed = evaluations_listed if kind == "evaluations" else catalog_listed
    async with client_of(arguments) as client:
        rows, notes = await listed(client, arguments)
    if arguments.output == "table":
        rows = (
            evaluation_terminal_rows(rows) if kind == "evaluations" else TERMINAL_ROWS[kind](rows)
        )
        if "description" in rows.columns:
            # A sentence is folded on a terminal; in a pipe, for grep, it stays on its line.
            rows = replace(rows, folds=sys.stdout.isatty())
    write_rows(rows, arguments.output)
    for note in notes:
        print(note, file=sys.stderr)
    return exits.OK


async def evaluations_listed(
    client: Any, arguments: argparse.Namespace
) -> tuple[Rows, Sequence[str]]:
    """Return a row for each evaluation, and a hint at those that the list hides.

    `client` asks for them under the constraints of `arguments`. Raises Misused, ClientError.
    """
    constraints, texts = constraints_of(arguments), {"": arguments.search}
    evaluations = await client.evaluations(**constraints)
    rows = matching_rows(evaluation_rows(evaluations), texts)
    if arguments.all or arguments.output != "table":
        return rows, ()
    ids = {status.evaluation for status in evaluations}
    everything = await client.evaluations(**constraints, predictions=True)
    others = [status for status in everything if status.evaluation not in ids]
    hidden = len(matching_rows(evaluation_rows(others), texts).rows)
    return rows, [_HIDDEN_NOTE.format(hidden)] if hidden else ()


async def catalog_listed(client: Any, arguments: argparse.Namespace) -> tuple[Rows, Sequence[str]]:
    """Return a row for each entry of a kind of the catalog, and what to say beside them.

    `client` asks for them; `arguments` have the kind and what the rows must contain. Raises
    Misused, ClientError.
    """
    kind = arguments.kind
    catalog = await client.catalog(kind.removesuffix("s"))
    rows = await rows_of_catalog(client, catalog, arguments)
    notes = []
    if arguments.output == "table" and kind == "models" and sys.stdout.isatty():
        notes.append(_RUNNING_NOTE)
    if kind != "agents":
        notes += [_REFUSED_NOTE.format(*refused) for refused in catalog.refused.items()]
    return matching_rows(rows, {"": arguments.search, "task": arguments.task}), notes


async def rows_of_catalog(client: Any, catalog: Catalog, arguments: argparse.Namespace) -> Rows:
    """Return the rows of a kind of the `catalog`; models with the agents that run them now.

    `client` asks for the agents; `arguments` have the kind, a framework and whether a model must
    run somewhere. Raises Misused, ClientError.
    """
    if arguments.kind != "models":
        return catalog_rows(catalog, arguments.kind)
    groups = alike((await client.catalog("agent")).agents)
    models = visible_models(catalog.models, arguments.framework)
    running = [(model, running_of(model, groups)) for model in models]
    if arguments.runnable:
        running = [(model, where) for model, where in running if where.agents]
    listed = catalog.model_copy(update={"models": tuple(model for model, _ in running)})
    return with_running(catalog_rows(listed, "models"), [where for _, where in running])


def constraints_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of `ListEvaluations` that the arguments name. Raises Misused."""
    name, colon, version = arguments.model.partition(":")
    if colon and arguments.model_version:
        raise Misused(f"--model {arguments.model} has a constraint: omit --model-version")
    version = version or arguments.model_version
    fields = {
        "limit": arguments.limit,
        "model": f"{name}:{version}" if version else name,
        "state": arguments.state,
        "framework": arguments.framework or None,
        "agents": arguments.agent,
        "system": system_of(arguments),
        "labels": texts_of("--label", arguments.label),
        "predictions": arguments.all or None,
    }
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


def visible_models(models: Sequence[ModelManifest], framework: str) -> tuple[ModelManifest, ...]:
    """Return the models that are not hidden and run on `NAME[:CONSTRAINT]`, '' for any.

    NAME may be a part of a framework's name, or another name of it. Raises Misused for a wrong
    constraint.
    """
    typed, _, text = framework.partition(":")
    name = predictors_name(typed)
    try:
        constraint = constraint_of(text)
    except BadConstraint as error:
        raise Misused(f"--framework {framework}: {error}") from None

    def runs_on_framework(model: ModelManifest) -> bool:
        return any(
            name.casefold() in need.name.casefold()
            and meet(constraint_of(need.version), constraint)
            for need in frameworks_of(model)
        )

    return tuple(model for model in models if not model.hidden and runs_on_framework(model))


def matching_rows(rows: Rows, texts: Mapping[str, str]) -> Rows:
    """Return the rows that contain each text in its column, in any case.

    `rows`: the rows to search; `texts`: a text for each column, with '' for any column.
    """

    def contains(row: Sequence[Any], column: str, text: str) -> bool:
        cells = row if not column else [row[rows.columns.index(column)]]
        return any(text.casefold() in str(cell).casefold() for cell in cells)

    searched = [(column, text) for column, text in texts.items() if text]
    matching = tuple(
        row for row in rows.rows if all(contains(row, column, text) for column, text in searched)
    )
    return replace(rows, rows=matching)
