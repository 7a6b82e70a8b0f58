"""Requests as a person would type them: a command line, a Python program, JSON. Pure.

The three are made from the same messages, so they ask for the same evaluations.
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pprint import pformat
from typing import Any

from mlscope.yaml.values import yaml_value
from schemas.request import Evaluate

_ONLY_IN_MESSAGES = ("variants",)
_MANIFEST_FILE = "my-{}.yml"
_WIDTH = 88


@dataclass(frozen=True, slots=True)
class Equivalents:
    """The same requests in three forms; `missing` says what the command line cannot express."""

    command_line: str
    python: str
    json: str
    missing: tuple[str, ...] = ()


def equivalents_of(requests: Sequence[Evaluate]) -> Equivalents:
    """Return `requests`, of which there is at least one, in every form."""
    fields = [request_fields(request) for request in requests]
    missing = {name: None for request in fields for name in _missing_in(request)}
    return Equivalents(
        command_line="\n".join(shlex.join(command_words(request)) for request in fields),
        python=_python(fields),
        json=json.dumps(fields[0] if len(fields) == 1 else fields, indent=2, ensure_ascii=False),
        missing=tuple(missing),
    )


def request_fields(request: Evaluate) -> dict[str, Any]:
    """Return the fields of a request that differ from their defaults, in the shortest form."""
    fields = request.model_dump(mode="json", exclude_defaults=True, exclude={"model", "key"})
    if "framework" in fields:
        need = request.framework
        fields["framework"] = ":".join(filter(None, (need.name, need.version))) if need else None
    if "scenarios" in fields:
        fields["scenarios"] = [
            choice.model_dump(mode="json") if choice.parameters else choice.name
            for choice in request.scenarios
        ]
    model = request.model
    named = model if isinstance(model, str) else model.model_dump(mode="json", exclude_unset=True)
    return {"model": named, **fields}


def command_words(fields: Mapping[str, Any]) -> list[str]:
    """Return the words of `mlscope run` that ask for what `fields` of `request_fields` say."""
    command = ["mlscope", "run", _named(fields["model"], "model")]
    for scenario in fields.get("scenarios", ()):
        command += ["--scenario", _scenario_text(scenario)]
    if sizes := fields.get("batch_sizes"):
        command += ["--batch-size", ",".join(map(str, sizes))]
    for option, name in _TEXTS.items():
        if name in fields:
            command += [option, str(fields[name])]
    if levels := fields.get("levels"):
        command += ["--levels", ",".join(levels)]
    for name, switch in fields.get("collectors", {}).items():
        command += ["--collector", _collector_text(name, switch)]
    if fields.get("serialised"):
        command.append("--serialised")
    if dataset := fields.get("dataset"):
        command += ["--dataset", _named(dataset, "dataset")]
    if (blocks := fields.get("blocks")) is not None:
        command += ["--blocks", _blocks_text(blocks)]
    for name, value in fields.get("labels", {}).items():
        command += ["--label", f"{name}={value}"]
    return command + _place_words(fields)


_TEXTS = {
    "--trace-level": "trace_level",
    "--warmup": "warmup",
    "--pacing": "pacing",
    "--outputs": "outputs",
    "--run-timeout": "run_timeout_s",
    "--wait": "wait_s",
    "--framework": "framework",
    "--visibility": "visibility",
}
"""Options with one value, and their fields."""


def _place_words(fields: Mapping[str, Any]) -> list[str]:
    """Return the words that say where to run."""
    options: list[str] = []
    for name, value in fields.get("options", {}).items():
        options += ["--option", f"{name}={_yaml_text(value)}"]
    for agent in fields.get("agents", ()):
        options += ["--agent", agent]
    for name, value in fields.get("system", {}).items():
        if name == "device":
            options += ["--device", value]
        elif isinstance(value, dict) and name in ("hardware", "software"):
            options += ["--need", f"{name}={_MANIFEST_FILE.format(name)}"]
        else:
            options += ["--need", f"{name}={_yaml_text(value)}"]
    return [*options, "--all-agents"] if fields.get("spread") == "all" else options


def _named(value: str | dict[str, Any], kind: str) -> str:
    return value if isinstance(value, str) else _MANIFEST_FILE.format(kind)


def _scenario_text(scenario: str | Mapping[str, Any]) -> str:
    if isinstance(scenario, str):
        return scenario
    return f"{scenario['name']}:{_pairs_text(scenario['parameters'])}"


def _collector_text(name: str, switch: bool | Mapping[str, Any]) -> str:
    if isinstance(switch, bool):
        return name if switch else f"{name}=off"
    return f"{name}={_pairs_text(switch)}" if switch else name


def _pairs_text(pairs: Mapping[str, Any]) -> str:
    return ",".join(f"{name}={_yaml_text(value)}" for name, value in pairs.items())


def _blocks_text(blocks: Mapping[str, Any]) -> str:
    least = blocks.get("least", 1)
    limits = (blocks.get("interval", 0.0), blocks.get("budget_s", 0.0))
    return ":".join(str(part) for part in (least, blocks.get("most", 1), *limits))


def _yaml_text(value: Any) -> str:
    """Return a value as YAML on one line: plain where that is read back as the same text."""
    if isinstance(value, str) and value.strip():
        try:
            is_plain = yaml_value(value) == value
        except ValueError:
            is_plain = False
        if is_plain:
            return value
    return json.dumps(value, ensure_ascii=False)


def _missing_in(fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield the parts of a request that the command line cannot express."""
    yield from (name for name in _ONLY_IN_MESSAGES if name in fields)
    if fields.get("blocks", {}).get("of", "median") != "median":
        yield "blocks.of"
    for scenario in fields.get("scenarios", ()):
        parameters = {} if isinstance(scenario, str) else scenario["parameters"]
        for name, value in parameters.items():
            if "," in _yaml_text(value):
                yield f"{scenario['name']}.{name}"
    for name, switch in fields.get("collectors", {}).items():
        options = {} if isinstance(switch, bool) else switch
        if any("," in _yaml_text(value) for value in options.values()):
            yield f"collectors.{name}"


def _python(requests: Sequence[Mapping[str, Any]]) -> str:
    """Return a program that starts the requests and prints a table of each result."""
    calls = [_call_of(fields) for fields in requests]
    if len(calls) == 1:
        start = f"    evaluation = {calls[0]}"
        wait = ["    evaluation.wait()", '    print(evaluation.table("latency"))']
    else:
        start = "    evaluations = [\n        " + ",\n        ".join(calls) + ",\n    ]"
        wait = [
            "    for evaluation in evaluations:",
            "        evaluation.wait()",
            '        print(evaluation.table("latency"))',
        ]
    return "\n".join(("from mlscope import Client", "", "with Client() as client:", start, *wait))


def _call_of(fields: Mapping[str, Any]) -> str:
    """Return the call that starts one request; each argument on lines of its own."""
    arguments = [pformat(fields["model"], width=_WIDTH, sort_dicts=False)]
    arguments += [
        f"{name}={pformat(value, width=_WIDTH, sort_dicts=False)}"
        for name, value in fields.items()
        if name != "model"
    ]
    text = ", ".join(arguments)
    if len(text) < 60:
        return f"client.run({text})"
    lines = ",\n".join(arguments).replace("\n", "\n        ")
    return f"client.run(\n        {lines},\n    )"
