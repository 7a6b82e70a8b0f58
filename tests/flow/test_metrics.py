"""The services of a cluster export each figure that alerts and pages ask for."""

import httpx
from prometheus_client.parser import text_string_to_metric_families

from cli.cluster.state import read_state
from mlscope.metrics.declared import BACKLOGS, METRICS, SERVICE_UP, SERVICES
from tests.flow.clusters import Cluster, online, run


def test_services_export_every_declared_metric(cluster: Cluster) -> None:
    assert run(cluster, scenarios=online()).state == "analyzed"
    url = f"{read_state(cluster.folder).gateway_url}/metrics"
    text = httpx.get(url, headers={"Authorization": f"Bearer {cluster.token()}"}).text
    exported = {
        (sample.name, sample.labels.get("service"))
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    declared = {
        (metric.name, service)
        for metric in METRICS
        for service in metric.services or SERVICES
        # Those with a label more are exported once they have counted something.
        if metric.services or not metric.label
    }
    assert declared - exported == set()
    assert {metric.name for metric in (SERVICE_UP, *BACKLOGS)} <= {name for name, _ in exported}
