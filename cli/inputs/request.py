"""Arguments as a request to evaluate; reads the manifest files that they name."""

import argparse
import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cli.failures import Misused
from cli.inputs.connection import client_of
from cli.inputs.manifests import name_or_manifest
from mlscope.bus.errors import BusError
from mlscope.client.asynchronous import request_of
from mlscope.client.errors import ClientError, NoScenario
from mlscope.client.scenario_texts import scenario_in
from mlscope.yaml.values import yaml_value
from schemas.request import Evaluate


def request_from(arguments: argparse.Namespace) -> Evaluate:
    """Return the request that the arguments describe. Raises Misused, EvaluationRefused."""
    fields: dict[str, Any] = {
        "framework": arguments.framework or None,
        "scenarios": [scenario_of(text) for text in arguments.scenario],
        "batch_sizes": batch_sizes_of(arguments.batch_size),
        "trace_level": arguments.trace_level,
        "levels": [level for level in arguments.levels.split(",") if level],
        "agents": arguments.agent,
        "spread": "all" if arguments.all_agents else "one",
        "system": system_of(arguments),
        "dataset": dataset_from(arguments),
        "options": pairs_of("--option", arguments.option),
        "collectors": collectors_of(arguments.collector),
        "serialised": arguments.serialised or None,
        "blocks": blocks_of(arguments.blocks),
        "pacing": arguments.pacing,
        "warmup": arguments.warmup,
        "outputs": arguments.outputs,
        "run_timeout_s": arguments.run_timeout,
        "wait_s": arguments.wait,
        "key": arguments.key,
        "visibility": arguments.visibility,
        "labels": texts_of("--label", arguments.label),
    }
    non_empty = {name: value for name, value in fields.items() if value not in (None, "", [], {})}
    return request_of(model_from(arguments), non_empty)


def model_from(arguments: argparse.Namespace) -> str | dict[str, Any]:
    """Return the requested model: a name, or a manifest whose files have been sent.

    Raises Misused, ClientError.
    """
    model = name_or_manifest(arguments.model)
    if isinstance(model, str):
        return model
    from cli.inputs.model_files import with_files

    return with_files(model, Path(arguments.model), arguments)


def dataset_from(arguments: argparse.Namespace) -> str | dict[str, Any]:
    """Return the requested dataset: a name, or a manifest whose files have been sent.

    A path contains a slash, so that a folder never hides a dataset's name. Raises Misused,
    ClientError.
    """
    text: str = arguments.dataset
    from mlscope.datasets.layout_detection import is_squad

    is_samples_file = text.endswith(".json") and is_squad(Path(text))
    dataset = text if is_samples_file else name_or_manifest(text, "dataset")
    if isinstance(dataset, str) and not is_samples_file and "/" not in text:
        _require_dataset(text, arguments)
        return text
    from cli.inputs.datasets import manifest_of_path, with_samples

    if isinstance(dataset, dict):
        return with_samples(dataset, Path(text), arguments)
    if not Path(text).exists():
        raise Misused(f"--dataset {text}: no such file or folder")
    return manifest_of_path(Path(text), arguments)


def _require_dataset(name: str, arguments: argparse.Namespace) -> None:
    """Raise Misused if the catalog has no dataset of this `name`, which is also a path here.

    Without an answer of the cluster, the scheduler tells later whether there is such a dataset.
    """
    is_offline = getattr(arguments, "files_stay", False)  # a plan asks no cluster
    if is_offline or not name or not Path(name).exists():
        return

    async def names() -> set[str]:
        async with client_of(arguments) as client:
            return {dataset.name for dataset in (await client.catalog("dataset")).datasets}

    try:
        known = asyncio.run(names())
    except (ClientError, BusError):
        return
    if name not in known:
        raise Misused(f"--dataset {name}: the catalog has none; did you mean ./{name}?")


def system_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the system requirements of `--device` and `--need`. Raises Misused."""
    needs = pairs_of("--need", arguments.need)
    for kind in ("hardware", "software"):
        if isinstance(value := needs.get(kind), str):
            needs[kind] = name_or_manifest(value, kind)
    return {"device": arguments.device, **needs} if arguments.device else needs


def scenario_of(text: str) -> dict[str, Any]:
    """Return the scenario in `name:k=v,k=v`. Raises Misused."""
    try:
        return scenario_in(text)
    except NoScenario as error:
        raise Misused(f"--scenario {error}") from None


def collectors_of(texts: Iterable[str]) -> dict[str, bool | dict[str, Any]]:
    """Return the collectors in `name`, `name=off` and `name=k=v,k=v`. Raises Misused."""
    switches: dict[str, bool | dict[str, Any]] = {}
    for text in texts:
        name, _, options = text.partition("=")
        if not name:
            raise Misused(f"--collector {text}: expected NAME, NAME=off or NAME=k=v,…")
        if options in ("", "on", "off"):
            switches[name] = options != "off"
        else:
            switches[name] = pairs_of(f"--collector {text}:", _split(options))
    return switches


def batch_sizes_of(text: str) -> list[int]:
    """Return the numbers in `1,2,4`. Raises Misused."""
    try:
        return [int(size) for size in _split(text)]
    except ValueError:
        raise Misused(f"--batch-size {text}: expected integers like 1,2,4") from None


def blocks_of(text: str) -> dict[str, Any]:
    """Return the stop rule in `least[:most[:interval[:budget_s]]]`. Raises Misused."""
    if not text:
        return {}
    parts = text.split(":")
    try:
        least = int(parts[0])
        maximum = int(parts[1]) if len(parts) > 1 else least
        interval = float(parts[2]) if len(parts) > 2 else 0.0
        budget_s = float(parts[3]) if len(parts) > 3 else 0.0
    except ValueError:
        form = "LEAST[:MOST[:INTERVAL[:BUDGET]]], e.g. 3:10:0.02:60"
        raise Misused(f"--blocks {text}: expected {form}") from None
    return {"least": least, "most": maximum, "interval": interval, "budget_s": budget_s}


def pairs_of(option: str, texts: Iterable[str]) -> dict[str, Any]:
    """Return the keys and values in `k=v` texts; values are YAML.

    Raises Misused, whose message begins with `option`: the option, and what of it was typed before
    `texts`.
    """
    values: dict[str, Any] = {}
    for key, text in texts_of(option, texts).items():
        try:
            values[key] = yaml_value(text)
        except ValueError as error:
            raise Misused(f"{option} {key}={text}: {error}") from None
    return values


def texts_of(option: str, texts: Iterable[str]) -> dict[str, str]:
    """Return the keys and texts in `k=v` texts. Raises Misused, which begins with `option`."""
    values: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise Misused(f"{option} {text}: expected KEY=VALUE")
        values[key] = value
    return values


def prices_of(texts: Iterable[str]) -> dict[str, float]:
    """Return dollars an hour by agent, of texts `AGENT=DOLLARS`. Raises Misused."""
    prices: dict[str, float] = {}
    for text in texts:
        agent, _, dollars = text.partition("=")
        try:
            prices[agent] = float(dollars)
        except ValueError as error:
            raise Misused(f"--price {text}: expected AGENT=DOLLARS, e.g. p3=3.06") from error
    return prices


def _split(text: str) -> list[str]:
    return [part for part in text.split(",") if part]
