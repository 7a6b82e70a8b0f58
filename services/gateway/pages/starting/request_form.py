"""The fields of the form that starts evaluations, as requests, and requests as its fields. Pure.

Fields have the names of `Evaluate`; the parameters of a scenario are `SCENARIO.PARAMETER`. A link
may carry every field: `/new?model=resnet50&scenarios=poisson:rate_hz=20`.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import yaml

from mlscope.client.equivalents import request_fields
from mlscope.yaml.values import yaml_value
from schemas.encoding.codec import parse
from schemas.encoding.errors import MalformedMessage
from schemas.request import Evaluate, SystemNeed

MOST_MODELS = 16
"""Models of one form; each is an evaluation of its own."""

SYSTEM_TEXTS = ("device", "architecture", "accelerator", "interconnect")
BYTES = ("memory_bytes", "accelerator_memory_bytes")
BLOCKS = ("least", "most", "interval", "budget_s")
NUMBERS = ("warmup", "outputs", "run_timeout_s", "wait_s")
_TEXTS = ("framework", "spread", "trace_level", "pacing", "visibility")
_LISTS = ("model", "agents", "scenarios")
_OWN_FIELDS = (
    *_TEXTS,
    *NUMBERS,
    "agents",
    "batch_sizes",
    "collectors",
    "dataset",
    "labels",
    "options",
    "scenarios",
    "serialised",
    "blocks",
    "system",
)
_NESTED: Mapping[str, str] = MappingProxyType(
    {
        "system": "{}",
        "blocks": "blocks.{}",
        "collectors": "collectors.{}",
        "dataset": "dataset_manifest",
        "model": "manifest",
    }
)
"""By field of `Evaluate`, the form's field for what lies below it."""
_SIZE = re.compile(r"([\d.]+)\s*([kKMGT]?)(i?)B?")
_POWERS: Mapping[str, int] = MappingProxyType({"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4})

Values = Mapping[str, Sequence[str]]
"""What a form or an address holds: the texts of each field."""
ManifestReader = Callable[[str, str], dict[str, Any]]
"""Returns the manifest in a YAML text, of a kind, as fields; raises ValueError with all faults."""
Defaults = Mapping[str, Mapping[str, Any]]
"""By scenario, the default of each parameter."""


@dataclass(frozen=True, slots=True)
class Filled:
    """The requests of a form, one a model, and what is wrong, by field ('' the whole form)."""

    requests: tuple[Evaluate, ...]
    faults: Mapping[str, str]


class _Reader:
    """Reads fields; collects what is wrong."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.faults: dict[str, str] = {}

    def text(self, name: str) -> str:
        """Return a field's last text, without space around it."""
        texts = self.values.get(name, ())
        return texts[-1].strip() if texts else ""

    def texts(self, name: str) -> list[str]:
        """Return all texts of a field that are not empty."""
        return [text.strip() for text in self.values.get(name, ()) if text.strip()]

    def read(self, name: str, change: Callable[[str], Any]) -> Any:
        """Return a field's value by `change`, which raises ValueError; None if empty or wrong."""
        text = self.text(name)
        try:
            return change(text) if text else None
        except ValueError as error:
            self.faults[name] = str(error)
            return None


def filled(
    values: Values, read_manifest: ManifestReader, defaults: Defaults = MappingProxyType({})
) -> Filled:
    """Return the requests that the fields of a form describe, as far as they are right.

    `values` are the fields, `read_manifest` reads the manifests among them; a parameter that equals
    its scenario's default (`defaults`) is omitted.
    """
    reader = _Reader(values)
    fields = _common_fields(reader, defaults)
    own_dataset = reader.read("dataset_manifest", lambda text: read_manifest(text, "dataset"))
    if own_dataset is not None:
        fields["dataset"] = own_dataset
    models: list[str | dict[str, Any]] = list(dict.fromkeys(reader.texts("model")))
    manifest = reader.read("manifest", lambda text: read_manifest(text, "model"))
    if manifest is not None:
        models.append(manifest)
    if not models and "manifest" not in reader.faults:
        reader.faults["model"] = "choose a model"
    if len(models) > MOST_MODELS:
        reader.faults["model"] = f"found {len(models)} models, allowed: up to {MOST_MODELS}"
    requests = []
    for model in models[:MOST_MODELS]:
        try:
            requests.append(parse(Evaluate, {**fields, "model": model}))
        except MalformedMessage as error:
            name = field_of(error.field, fields.get("scenarios", ()))
            reader.faults.setdefault(name, f"found {error.found}, allowed: {error.expected}")
            break
    return Filled(() if reader.faults else tuple(requests), reader.faults)


def _common_fields(reader: _Reader, defaults: Defaults) -> dict[str, Any]:
    """Return the fields that the requests of all models share."""
    fields: dict[str, Any] = {name: reader.text(name) for name in _TEXTS}
    fields |= {name: reader.read(name, number_of) for name in NUMBERS}
    system: dict[str, Any] = {name: reader.text(name) for name in SYSTEM_TEXTS}
    system |= {name: reader.read(name, bytes_of) for name in BYTES}
    system["labels"] = reader.read("system_labels", texts_by_key)
    blocks = {name: reader.read(f"blocks.{name}", number_of) for name in BLOCKS}
    fields |= {
        "agents": reader.texts("agents"),
        "scenarios": _scenarios(reader, defaults),
        "batch_sizes": reader.read("batch_sizes", sizes_of),
        "dataset": reader.text("dataset"),
        "collectors": _collectors(reader),
        "options": reader.read("options", values_by_key),
        "labels": reader.read("labels", texts_by_key),
        "serialised": True if reader.text("serialised") else None,
        "blocks": _without_empty(blocks),
        "system": _without_empty(system),
    }
    further = reader.read("further", map_of) or {}
    unknown = sorted(set(further) - set(Evaluate.model_fields))
    if unknown:
        allowed = ", ".join(sorted(set(Evaluate.model_fields) - {"model", "key"}))
        reader.faults["further"] = f"found {', '.join(unknown)}, allowed: {allowed}"
    named = {name: value for name, value in further.items() if name not in unknown}
    chosen = fields["visibility"]
    if chosen and named.get("visibility", chosen) != chosen:
        reader.faults["visibility"] = f"found {chosen}, allowed: the same as in the further fields"
    return _merged(_without_empty(fields), named)


def _merged(fields: dict[str, Any], further: Mapping[str, Any]) -> dict[str, Any]:
    """Return `fields` with the `further` ones; maps are joined."""
    for name, value in further.items():
        own = fields.get(name)
        is_joined = isinstance(own, dict) and isinstance(value, dict)
        fields[name] = {**own, **value} if is_joined and own else value
    return fields


def _without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


def _scenarios(reader: _Reader, defaults: Defaults) -> list[dict[str, Any]]:
    """Return the chosen scenarios with the parameters that are not at their defaults."""
    scenarios = []
    for text in reader.texts("scenarios"):
        name, _, pairs = text.partition(":")
        parameters: dict[str, Any] = {}
        try:
            parameters = values_by_key(pairs.replace(",", "\n"))
        except ValueError as error:
            reader.faults["scenarios"] = str(error)
        for key in reader.values:
            scenario, _, parameter = key.partition(".")
            if scenario == name and parameter and reader.text(key):
                parameters[parameter] = reader.read(key, yaml_value)
        own = defaults.get(name, {})
        parameters = {
            key: value
            for key, value in parameters.items()
            if key not in own or own[key] != value or isinstance(value, bool)
        }
        scenarios.append({"name": name, "parameters": parameters})
    return scenarios


def _collectors(reader: _Reader) -> dict[str, bool]:
    """Return the collectors that are switched on or off, in fields `collectors.NAME`."""
    return {
        name.partition(".")[2]: reader.text(name) == "on"
        for name in reader.values
        if name.startswith("collectors.") and reader.text(name) in ("on", "off")
    }


def field_of(path: str, scenarios: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return the form's field for a field of `Evaluate`, as `scenarios.0.parameters.rate_hz`.

    `scenarios` are those of the request. A field that the form lacks belongs to `further`.
    """
    names = {str(number): scenario["name"] for number, scenario in enumerate(scenarios)}
    match path.split("."):
        case ["scenarios", number, _, parameter, *_] if number in names:
            return f"{names[number]}.{parameter}"
        case ["system", "labels", *_]:
            return "system_labels"
        case [first, name, *_] if first in _NESTED:
            return _NESTED[first].format(name)
        case [name, *_] if name in (*_OWN_FIELDS, "model"):
            return name
        case [name, *_] if name in Evaluate.model_fields:
            return "further"
    return ""


def values_of(request: Evaluate) -> dict[str, list[str]]:
    """Return the fields of the form that describe a request, without loss."""
    fields = request_fields(request)
    values: dict[str, list[str]] = {}
    for name, kind in (("model", "manifest"), ("dataset", "dataset_manifest")):
        value = fields.pop(name, "")
        key = name if isinstance(value, str) else kind
        values[key] = [value if isinstance(value, str) else yaml_of(value)]
    for name in (*_TEXTS, *NUMBERS):
        if name in fields:
            values[name] = [str(fields.pop(name))]
    values["agents"] = fields.pop("agents", [])
    values["batch_sizes"] = [", ".join(map(str, request.batch_sizes))]
    fields.pop("batch_sizes", None)
    fields.pop("scenarios", None)
    for scenario in request.scenarios:
        values.setdefault("scenarios", []).append(scenario.name)
        for key, value in scenario.parameters.items():
            values[f"{scenario.name}.{key}"] = [text_of(value)]
    labels, options = fields.pop("labels", {}), fields.pop("options", {})
    values["labels"] = ["\n".join(f"{key}={value}" for key, value in labels.items())]
    values["options"] = ["\n".join(f"{key}={text_of(value)}" for key, value in options.items())]
    if fields.pop("serialised", None):
        values["serialised"] = ["yes"]
    _put_nested(values, fields)
    values["further"] = [json.dumps(fields, indent=2) if fields else ""]
    return {name: texts for name, texts in values.items() if any(texts)}


def _put_nested(values: dict[str, list[str]], fields: dict[str, Any]) -> None:
    """Move what the form has of `system`, `blocks` and `collectors` from `fields` to `values`."""
    system = fields.pop("system", {})
    for name in (*SYSTEM_TEXTS, *BYTES):
        if name in system:
            value = system.pop(name)
            values[name] = [size_text(value) if name in BYTES else value]
    labels = system.pop("labels", {})
    values["system_labels"] = ["\n".join(f"{key}={value}" for key, value in labels.items())]
    blocks = fields.pop("blocks", {})
    for name in BLOCKS:
        if name in blocks:
            values[f"blocks.{name}"] = [str(blocks.pop(name))]
    collectors = fields.pop("collectors", {})
    for name, switch in list(collectors.items()):
        if isinstance(switch, bool):
            values[f"collectors.{name}"] = ["on" if collectors.pop(name) else "off"]
    nested = {"system": system, "blocks": blocks, "collectors": collectors}
    fields |= {name: value for name, value in nested.items() if value}


def number_of(text: str) -> int | float:
    """Return a number. Raises ValueError."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"found {text[:40]}, allowed: a number") from None


def bytes_of(text: str) -> int:
    """Return the bytes in `8 GB`, `8GiB` or `8000000000`. Raises ValueError."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"found {text[:40]}, allowed: a size as 8 GB, 8 GiB or 8000000000")
    digits, prefix, binary = match.groups()
    return int(float(number_of(digits)) * (1024 if binary else 1000) ** _POWERS[prefix])


def size_text(size_bytes: int) -> str:
    """Return bytes as `bytes_of` reads them."""
    for prefix, power in (("T", 4), ("G", 3), ("M", 2)):
        for base, binary in ((1000, ""), (1024, "i")):
            if size_bytes and size_bytes % base**power == 0:
                return f"{size_bytes // base**power} {prefix}{binary}B"
    return str(size_bytes)


def sizes_of(text: str) -> list[int]:
    """Return the integers in `1, 2, 4`. Raises ValueError."""
    parts = [part for part in re.split(r"[\s,;]+", text) if part]
    if not all(part.isascii() and part.isdigit() and len(part) < 7 for part in parts):
        raise ValueError(f"'{text[:40]}' is not a list of integers such as 1, 2, 4")
    return [int(part) for part in parts]


def text_of(value: Any) -> str:
    """Return a value as a text that `yaml_value` reads as the same value."""
    if isinstance(value, str) and value.strip():
        try:
            if yaml_value(value) == value:
                return value
        except ValueError:
            pass
    return json.dumps(value, ensure_ascii=False)


def texts_by_key(text: str) -> dict[str, str]:
    """Return the lines `key=value` of a text as a map. Raises ValueError."""
    pairs = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        key, equals, value = line.partition("=")
        if not key.strip() or not equals:
            raise ValueError(f"found {line[:40]}, allowed: key=value, one a line")
        pairs[key.strip()] = value.strip()
    return pairs


def values_by_key(text: str) -> dict[str, Any]:
    """Return the lines `key=value` of a text as a map of YAML values. Raises ValueError."""
    return {key: yaml_value(value) for key, value in texts_by_key(text).items()}


def map_of(text: str) -> dict[str, Any]:
    """Return the map in a JSON or YAML text. Raises ValueError."""
    value = yaml_value(text)
    if not isinstance(value, dict):
        raise ValueError('found no map, allowed: fields of a request, as {"levels": ["none"]}')
    return value


def yaml_of(fields: Mapping[str, Any]) -> str:
    """Return a manifest's fields as YAML."""
    return yaml.safe_dump(dict(fields), sort_keys=False, allow_unicode=True, width=100)


def values_from(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the texts of each field of a form or an address; lists may be split by commas."""
    values: dict[str, list[str]] = {}
    for name, text in pairs:
        is_plain_list = name in ("model", "agents") and "," in text
        values.setdefault(name, []).extend(text.split(",") if is_plain_list else [text])
    return values


assert set(SYSTEM_TEXTS) | set(BYTES) < set(SystemNeed.model_fields), "the form's own names"
