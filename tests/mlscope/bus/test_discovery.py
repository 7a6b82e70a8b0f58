"""What `nats micro` is told of a service."""

from mlscope.bus.discovery import ServiceInstance
from mlscope.bus.records import CommandCounts, ServiceInfo

FACTS = ServiceInfo("registry", "1.2.3", "Knows.", {"catalog": "a.catalog", "publish": "a.publish"})
COUNTS = {"a.catalog": CommandCounts(requests=4, errors=1, last_error="x", processing_ns=10)}


def announced(facts: ServiceInfo = FACTS) -> ServiceInstance:
    """Announce a service with some counts."""
    return ServiceInstance(
        facts, lambda: {"queue": 7}, lambda subject: COUNTS.get(subject, CommandCounts())
    )


def test_everybody_the_kind_and_the_instance_are_asked() -> None:
    service = announced()
    subjects = service.subjects()
    assert len(subjects) == 9
    assert {"$SRV.PING", "$SRV.INFO.registry", f"$SRV.STATS.registry.{service.instance}"} < set(
        subjects
    )


def test_two_instances_differ() -> None:
    assert announced().instance != announced().instance


def test_a_ping_names_the_service() -> None:
    answer = announced().answer_to("$SRV.PING.registry")
    assert answer["type"] == "io.nats.micro.v1.ping_response"
    assert (answer["name"], answer["version"]) == ("registry", "1.2.3")
    assert "endpoints" not in answer


def test_information_lists_the_endpoints() -> None:
    answer = announced().answer_to("$SRV.INFO")
    assert answer["description"] == "Knows."
    listed = [(each["name"], each["subject"], each["queue_group"]) for each in answer["endpoints"]]
    assert listed == [("catalog", "a.catalog", "registry"), ("publish", "a.publish", "registry")]


def test_statistics_count_by_endpoint_and_carry_the_services_own() -> None:
    first, second = announced().answer_to("$SRV.STATS")["endpoints"]
    assert (first["num_requests"], first["num_errors"], first["last_error"]) == (4, 1, "x")
    assert first["average_processing_time"] == 2
    assert (first["data"], second["num_requests"]) == ({"queue": 7}, 0)
    assert "data" not in second


def test_a_service_without_endpoints_still_tells_its_own() -> None:
    answer = announced(ServiceInfo("collector", "1", "", {})).answer_to("$SRV.STATS")
    assert answer["endpoints"][0]["data"] == {"queue": 7}
    assert answer["started"].endswith("Z")
