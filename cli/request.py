"""Arguments as a request to evaluate: pure but for the manifests' files it reads."""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from cli.failures import Misused
from mlscope.client.asynchronous import request_of
from mlscope.manifests.errors import ManifestFaulty
from schemas.request import Evaluate
from services.registry.manifests import read_manifest

_FILES = (".yml", ".yaml", ".json")


def request_from(arguments: argparse.Namespace) -> Evaluate:
    """Return the request that the arguments ask for. Raises Misused, EvaluationRefused."""
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
        "labels": texts_of("--label", arguments.label),
    }
    asked = {name: value for name, value in fields.items() if value not in (None, "", [], {})}
    return request_of(model_from(arguments), asked)


def model_from(arguments: argparse.Namespace) -> str | dict[str, Any]:
    """Return the model asked for: a name, or a manifest's content, its files sent along.

    Raises Misused, ClientError.
    """
    found = named_or_read(arguments.model)
    if isinstance(found, str):
        return found
    from cli.sending import with_files

    return with_files(found, Path(arguments.model), arguments)


def dataset_from(arguments: argparse.Namespace) -> str | dict[str, Any]:
    """Return the dataset asked for: a name, a manifest's content, or what a path leads to.

    A path has a slash in it, so that no folder hides a name. Raises Misused, ClientError.
    """
    text: str = arguments.dataset
    from mlscope.datasets.detecting import is_squad

    if text.endswith(".json") and is_squad(Path(text)):
        found: str | dict[str, Any] = text
    elif isinstance(found := named_or_read(text, "dataset"), str) and "/" not in text:
        return text
    from cli.datasets import given_dataset, settled

    if isinstance(found, dict):
        return settled(found, Path(text), arguments)
    if not Path(text).exists():
        raise Misused(f"--dataset {text}: no such file or folder")
    return given_dataset(Path(text), arguments)


def system_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what `--device` and `--need` say the system must be. Raises Misused."""
    need = pairs_of("--need", arguments.need)
    for name in ("hardware", "software"):
        if isinstance(value := need.get(name), str):
            need[name] = named_or_read(value, name)
    return {"device": arguments.device, **need} if arguments.device else need


def scenario_of(text: str) -> dict[str, Any]:
    """Return `name:k=v,k=v` as a choice of a scenario. Raises Misused."""
    name, _, rest = text.partition(":")
    return {"name": name, "parameters": pairs_of("--scenario", _split(rest))}


def collectors_of(texts: Iterable[str]) -> dict[str, bool | dict[str, Any]]:
    """Return `name`, `name=off` and `name=k=v,k=v` as switches. Raises Misused."""
    switches: dict[str, bool | dict[str, Any]] = {}
    for text in texts:
        name, _, rest = text.partition("=")
        if not name:
            raise Misused(f"--collector {text}: NAME, NAME=off or NAME=k=v,…")
        if rest in ("", "on", "off"):
            switches[name] = rest != "off"
        else:
            switches[name] = pairs_of("--collector", _split(rest))
    return switches


def batch_sizes_of(text: str) -> list[int]:
    """Return `1,2,4` as numbers. Raises Misused."""
    try:
        return [int(each) for each in _split(text)]
    except ValueError:
        raise Misused(f"--batch-size {text}: whole numbers with commas between, 1,2,4") from None


def blocks_of(text: str) -> dict[str, Any]:
    """Return `least[:most[:interval[:budget_s]]]` as a stop rule. Raises Misused."""
    if not text:
        return {}
    parts = text.split(":")
    try:
        least = int(parts[0])
        most = int(parts[1]) if len(parts) > 1 else least
        interval, budget_s = (float(parts[at]) if len(parts) > at else 0.0 for at in (2, 3))
    except ValueError:
        form = "LEAST[:MOST[:INTERVAL[:BUDGET]]], e.g. 3:10:0.02:60"
        raise Misused(f"--blocks {text}: {form}") from None
    return {"least": least, "most": most, "interval": interval, "budget_s": budget_s}


def pairs_of(option: str, texts: Iterable[str]) -> dict[str, Any]:
    """Return `k=v` texts as a map; values are read as YAML scalars. Raises Misused."""
    return {key: _scalar(option, value) for key, value in texts_of(option, texts).items()}


def texts_of(option: str, texts: Iterable[str]) -> dict[str, str]:
    """Return `k=v` texts as a map of texts. Raises Misused."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise Misused(f"{option} {text}: key=value")
        found[key] = value
    return found


def _scalar(option: str, text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise Misused(f"{option} {text}: {error}") from None


def _split(text: str) -> list[str]:
    return [each for each in text.split(",") if each]


def named_or_read(text: str, kind: str = "model") -> str | dict[str, Any]:
    """Return a name as it is; what ends like a file is read as a manifest of a kind.

    Raises Misused, which tells every fault with its line.
    """
    if not text.endswith(_FILES):
        return text
    path = Path(text)
    try:
        manifest = read_manifest(path, kind)
    except ManifestFaulty as error:
        raise Misused("\n".join(fault.text(text) for fault in error.faults)) from None
    if manifest.kind != kind:
        raise Misused(f"{text}: kind: found {manifest.kind}, allowed: {kind}")
    return manifest.model_dump(mode="json", exclude_unset=True)


def manifest_in(path: Path) -> dict[str, Any]:
    """Return the map in a YAML or JSON file, of whatever kind. Raises Misused."""
    try:
        value = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise Misused(f"{path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Misused(f"{path}: neither YAML nor JSON: {error}") from None
    if not isinstance(value, dict):
        raise Misused(f"{path}: a manifest is a map, found {type(value).__name__}")
    return value
