"""The alert rules ask for metrics and labels that exist; the reference lists every metric."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from mlscope.metrics.declared import BACKLOGS, METRICS, SERVICE_UP, SERVICES, labels_of
from tools.reference.metrics import metrics_page

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "dashboards" / "prometheus"
DECLARED = {metric.name: metric for metric in (*METRICS, SERVICE_UP, *BACKLOGS)}
_SELECTOR = re.compile(r"(?P<name>mlscope_\w+)(?:\{(?P<matchers>[^}]*)\})?")
_MATCHER = re.compile(r'(?P<label>\w+)(?:=|!=|=~|!~)"(?P<value>[^"]*)"')


def rules() -> list[dict[str, Any]]:
    """Return the alert rules."""
    (group,) = yaml.safe_load((FOLDER / "alerts.yml").read_text("utf-8"))["groups"]
    return list(group["rules"])


def mistakes(rule: dict[str, Any]) -> list[str]:
    """Return what is wrong with a rule: metrics, labels and services that do not exist."""
    wrong = [] if re.search(r"(==|>|<) [\de.]+$", rule["expr"]) else ["it compares nothing"]
    labels = {"job"}
    for selector in _SELECTOR.finditer(rule["expr"]):
        metric = DECLARED.get(selector["name"])
        if metric is None:
            wrong.append(f"no metric {selector['name']}")
            continue
        labels = set(labels_of(metric))
        for matcher in _MATCHER.finditer(selector["matchers"] or ""):
            if matcher["label"] not in labels:
                wrong.append(f"no label {matcher['label']}")
            if matcher["label"] == "service" and matcher["value"] not in SERVICES:
                wrong.append(f"no service {matcher['value']}")
        is_rate = re.search(r"(increase|rate)\(" + selector["name"], rule["expr"]) is not None
        if is_rate != (metric.kind == "counter"):
            wrong.append(f"{selector['name']} is a {metric.kind}")
    named = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    return wrong + [f"no label {label}" for label in sorted(named - labels)]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_a_rule_asks_for_what_exists(rule: dict[str, Any]) -> None:
    assert mistakes(rule) == []
    assert rule["labels"]["severity"] in ("critical", "warning")


def test_a_rule_that_asks_for_what_does_not_exist_is_found() -> None:
    rule = {
        "expr": 'mlscope_service_up{host="x", service="cook"} + rate(mlscope_none[1m]) == 0',
        "annotations": {"summary": "{{ $labels.moon }}"},
    }
    unknown = ["no label host", "no service cook", "no metric mlscope_none", "no label moon"]
    assert mistakes(rule) == unknown


def test_what_to_do_about_every_alert_is_written() -> None:
    text = (ROOT / "docs" / "operations.md").read_text("utf-8")
    assert [rule["alert"] for rule in rules() if f"`{rule['alert']}`" not in text] == []


@pytest.mark.parametrize(
    "metric", ["mlscope_evaluations_lost", "mlscope_evaluations_database_only"]
)
def test_rows_that_only_one_disk_has_are_told_within_an_hour(metric: str) -> None:
    (rule,) = (rule for rule in rules() if rule["expr"] == f"{metric} > 0")
    assert rule.get("for", "1h") == "1h"


def test_prometheus_loads_the_rules_and_sends_the_token() -> None:
    settings = yaml.safe_load((FOLDER / "prometheus.yml").read_text("utf-8"))
    assert all((FOLDER / name).is_file() for name in settings["rule_files"])
    (job,) = settings["scrape_configs"]
    assert "credentials_file" in job["authorization"]
    assert any(f'job="{job["job_name"]}"' in rule["expr"] for rule in rules())


def test_the_reference_has_every_metric_once() -> None:
    assert sorted(re.findall(r"^\| `(mlscope_\w+)`", metrics_page(), re.MULTILINE)) == sorted(
        DECLARED
    )
