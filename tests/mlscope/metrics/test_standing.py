"""Answers to `$SRV.STATS` become the metrics that are declared, whatever a stranger answers."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from cli.cluster.plan import SERVICES as STARTED
from mlscope.bus.discovery import ServiceInstance
from mlscope.bus.records import Backlog, CommandCounts, ServiceInfo
from mlscope.metrics.declared import BACKLOGS, METRICS, SERVICE_UP, SERVICES, labels_of
from mlscope.metrics.exposition import exposition
from mlscope.metrics.standing import (
    MOST_LABEL_CHARACTERS,
    ServiceFigures,
    Standing,
    with_unique_hosts,
)

COUNTS = CommandCounts(requests=4, errors=1, processing_ns=2_500_000_000, open=3)
PROCESS = {"host": "here", "cpu_s": 1.5, "memory_bytes": 4096, "started_s": 7.0, "restarts": 2}


def figures(service: str = "registry", **data: Any) -> ServiceFigures:
    """Return the figures of a service with one endpoint."""
    info = ServiceInfo(service, "1.0.0", "", {"catalog": "a.catalog"})
    stats = {"process": PROCESS, **data}
    instance = ServiceInstance(info, lambda: stats, lambda _: COUNTS)
    return ServiceFigures.of(instance.answer_to("$SRV.STATS"))


def values(standing: Standing) -> Mapping[tuple[str, ...], float]:
    """Return what Prometheus reads: values by name and labels."""
    order = ("service", "host", "agent", "durable", "endpoint", "kind", "stream")
    return {
        (sample.name, *(sample.labels[name] for name in order if name in sample.labels)): (
            sample.value
        )
        for family in text_string_to_metric_families(exposition(standing).decode())
        for sample in family.samples
    }


def test_a_services_figures_have_its_service_host_and_agent_as_labels() -> None:
    read = values(Standing([figures("agent", agent="first", rows_published={"spans": 9})]))
    assert read["mlscope_restarts_total", "agent", "here", "first"] == 2
    assert read["mlscope_process_resident_memory_bytes", "agent", "here", "first"] == 4096
    assert read["mlscope_rows_published_total", "agent", "here", "first", "spans"] == 9
    assert read["mlscope_request_seconds_total", "agent", "here", "first", "catalog"] == 2.5
    assert read["mlscope_requests_open", "agent", "here", "first", "catalog"] == 3


def test_silent_services_and_backlogs_are_told_of_a_cluster_alone() -> None:
    backlogs = {"spans": Backlog(waiting=5, unsettled=2, redelivered=1)}
    read = values(Standing([figures()], backlogs))
    assert (read["mlscope_service_up", "registry"], read["mlscope_service_up", "agent"]) == (1, 0)
    assert read["mlscope_durable_waiting", "spans", "TRACES"] == 5
    assert read["mlscope_durable_redelivered", "spans", "TRACES"] == 1
    alone = values(Standing([figures()]))
    assert not [name for name, *_ in alone if name == "mlscope_service_up"]


def test_no_service_tells_anothers_metric() -> None:
    read = values(Standing([figures("agent", agents=1000, agent="x")]))
    assert not [name for name, *_ in read if name == "mlscope_agents_live"]


@pytest.mark.parametrize("strange", ["many", None, {"a": "b"}, [1], {"a": {"b": 1}}])
def test_what_is_no_number_is_left_out(strange: object) -> None:
    told = figures("agent", workers=strange, rows_published=strange, process=PROCESS)
    assert not [
        name
        for name, *_ in values(Standing([told]))
        if name in ("mlscope_workers", "mlscope_rows_published_total")
    ]


def test_a_stranger_makes_few_and_short_labels() -> None:
    many = {f"{number}{'x' * 200}": 1 for number in range(1000)}
    read = values(Standing([figures("agent", agent="y" * 1000, rows_published=many)]))
    assert len(read) < 100
    assert max(len(label) for key in read for label in key) <= 64


def test_metrics_are_named_by_conventions_and_their_services_exist() -> None:
    assert SERVICES == STARTED
    for metric in (*METRICS, SERVICE_UP, *BACKLOGS):
        assert metric.name.startswith("mlscope_")
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert metric.help.endswith(".")
        assert set(metric.services) <= set(SERVICES)
        assert len(set(labels_of(metric))) == len(labels_of(metric))


def instances(*places: tuple[str, str]) -> list[ServiceFigures]:
    """Return figures of agents of these hosts and names, each with a worker more."""
    return [
        figures("agent", agent=agent, process=PROCESS | {"host": host}, workers=number)
        for number, (host, agent) in enumerate(places, 1)
    ]


def test_instances_that_claim_the_same_labels_are_told_apart_by_numbers() -> None:
    same = instances(("h", "a"), ("g", "a"), ("h", "a"), ("h", "b"), ("h", "a"))
    hosts = [(each.host, each.agent) for each in with_unique_hosts(same)]
    assert hosts == [("g", "a"), ("h", "a"), ("h (2)", "a"), ("h (3)", "a"), ("h", "b")]


def test_no_instance_replaces_another_in_what_prometheus_reads() -> None:
    apart = with_unique_hosts(instances(("h", "a"), ("h", "a"), ("h", "b")))
    read = values(Standing(apart))
    workers = {key[2:]: value for key, value in read.items() if key[0] == "mlscope_workers"}
    assert workers == {("h", "a"): 1, ("h (2)", "a"): 2, ("h", "b"): 3}


@given(st.lists(st.sampled_from(["x" * 64, "x" * 63, "y", "y (2)"]), max_size=12))
def test_numbered_hosts_are_unique_and_no_longer_than_a_label(hosts: list[str]) -> None:
    apart = with_unique_hosts(instances(*((host, "a") for host in hosts)))
    names = [each.host for each in apart]
    assert len(set(names)) == len(names) == len(hosts)
    assert all(len(name) <= MOST_LABEL_CHARACTERS for name in names)


@pytest.mark.parametrize("strange", [2**63, -(2**63), float("inf"), float("nan"), 1e300])
def test_a_number_that_no_counter_holds_is_left_out(strange: float) -> None:
    told = figures("agent", workers=strange, rows_published={"spans": strange, "queries": 4})
    read = values(Standing([told]))
    assert not [key for key in read if key[0] == "mlscope_workers"]
    published = [key[-1] for key in read if key[0] == "mlscope_rows_published_total"]
    assert published == ["queries"]
    assert told.number("workers") == 0.0


def test_the_largest_number_of_64_bits_is_told() -> None:
    (told,) = instances(("h", "a"))
    assert told.number("workers") == 1.0
    largest = figures("agent", workers=2**63 - 1025)
    assert largest.number("workers") == float(2**63 - 1025)


def test_a_place_in_the_figures_that_is_no_branch_holds_nothing() -> None:
    told = figures("agent", agent="a")
    assert told.at("process.host") == "here"
    assert told.at("process.host.name") is None
    assert told.at("nowhere.at.all") is None
    assert told.number("process.host") == 0.0
