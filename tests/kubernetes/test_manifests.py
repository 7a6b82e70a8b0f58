"""The manifests for Kubernetes: valid by the published schemas, and whole among themselves.

No server applies them here: what a server alone would see is not tested.
"""

import re
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from cli.arguments import build_parser
from cli.commands.keys import keys
from mlscope.manifests.folders import read_manifests
from mlscope.people import people_folder
from mlscope.settings import Settings
from mlscope.settings.values import bytes_of
from schemas.manifest import FrameworkManifest
from services.gateway.sent.dataset_reading import MEMORY_BYTES
from services.gateway.sent.datasets import TIMES_UNPACKED
from services.gateway.sent.files import MOST_AT_ONCE

FOLDER = Path(__file__).parents[2] / "kubernetes"
SERVICES = ("registry", "scheduler", "collector", "analyzer", "gateway")
VERSIONS = ("1.28", "1.31", kubernetes_validate.latest_version())


def documents() -> Iterator[dict[str, Any]]:
    """Yield each object of the manifests."""
    for file in sorted(FOLDER.rglob("*.yaml")):
        if file.name != "kustomization.yaml":
            yield from yaml.safe_load_all(file.read_text("utf-8"))


OBJECTS = {(document["kind"], document["metadata"]["name"]): document for document in documents()}
PODS = {
    name: document["spec"]["template"]
    for (_, name), document in OBJECTS.items()
    if "template" in document.get("spec", {})
}
KUSTOMIZATION: dict[str, Any] = yaml.safe_load((FOLDER / "kustomization.yaml").read_text("utf-8"))


def generated(kind: str) -> dict[str, dict[str, Any]]:
    """Return the entries of a generator of the kustomization by their names."""
    return {entry["name"]: entry for entry in KUSTOMIZATION[kind]}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("identity", OBJECTS, ids="/".join)
def test_an_object_is_valid(identity: tuple[str, str], version: str) -> None:
    kubernetes_validate.validate(OBJECTS[identity], version, strict=True)


def test_every_file_is_applied() -> None:
    files = {file.name for file in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(KUSTOMIZATION["resources"]) == files


def test_what_opens_the_brokers_to_others_is_applied_on_request() -> None:
    component = yaml.safe_load((FOLDER / "outside" / "kustomization.yaml").read_text("utf-8"))
    assert (component["kind"], component["resources"]) == ("Component", ["brokers.yaml"])
    assert "components" not in KUSTOMIZATION
    spec = OBJECTS["Service", "nats-outside"]["spec"]
    assert spec["selector"] == OBJECTS["Service", "nats"]["spec"]["selector"]


def test_the_gateway_reads_people_where_they_are_mounted() -> None:
    (value,) = (
        own["value"] for own in environment(PODS["gateway"]) if own["name"] == "MLSCOPE_DATA"
    )
    mounts = PODS["gateway"]["spec"]["containers"][0]["volumeMounts"]
    (mounted,) = (own["mountPath"] for own in mounts if own["name"] == "people")
    assert str(people_folder(Path(value))) == mounted


def test_every_service_the_brokers_and_two_kinds_of_agents_run() -> None:
    assert set(PODS) == {*SERVICES, "nats", "provision", "agent-cpu", "agent-nvidia"}
    arguments = {name: PODS[name]["spec"]["containers"][0]["args"] for name in SERVICES}
    assert arguments == {name: ["serve", name] for name in SERVICES}


@pytest.mark.parametrize("name", sorted({*PODS} - {"nats", "provision"}))
def test_only_a_silent_service_is_restarted(name: str) -> None:
    container = PODS[name]["spec"]["containers"][0]
    service = container["args"][1]
    question = ["mlscope", "health", service]
    alive = container["livenessProbe"]["exec"]["command"]
    assert alive == [*question, "--liveness"], "without a broker, runs in progress go on"
    assert container["startupProbe"]["exec"]["command"] == question, "a start ends with an answer"
    parsed = build_parser().parse_args(alive[1:])
    assert (parsed.service, parsed.liveness) == (service, True)


@pytest.mark.parametrize("name", PODS)
def test_what_a_pod_mounts_and_reads_is_made(name: str) -> None:
    spec = PODS[name]["spec"]
    container = spec["containers"][0]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    claims = OBJECTS.get(("StatefulSet", name), {}).get("spec", {}).get("volumeClaimTemplates", ())
    claimed = {claim["metadata"]["name"] for claim in claims}
    assert {mount["name"] for mount in container["volumeMounts"]} == {*volumes, *claimed}
    mounted = (volume["secret"] for volume in volumes.values() if "secret" in volume)
    secrets = {own["secretName"] for own in mounted if not own.get("optional")}
    assert secrets <= set(generated("secretGenerator"))
    maps = {volume["configMap"]["name"] for volume in volumes.values() if "configMap" in volume}
    maps |= {source["configMapRef"]["name"] for source in container.get("envFrom", ())}
    assert maps <= set(generated("configMapGenerator"))


@pytest.mark.parametrize("name", PODS)
def test_no_pod_is_root_or_has_rights_that_it_does_not_need(name: str) -> None:
    spec = PODS[name]["spec"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert not spec["automountServiceAccountToken"]
    context = spec["containers"][0]["securityContext"]
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert not context["allowPrivilegeEscalation"]


def test_the_variables_are_settings() -> None:
    variables = {entry["name"] for pod in PODS.values() for entry in environment(pod)}
    for entry in KUSTOMIZATION["configMapGenerator"]:
        variables |= {literal.partition("=")[0] for literal in entry.get("literals", ())}
    known = {field.metadata["variable"] for field in fields(Settings)}
    assert {name for name in variables if name.startswith("MLSCOPE_")} <= known


def environment(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the variables that a pod's container has of its own."""
    entries: list[dict[str, Any]] = pod["spec"]["containers"][0].get("env", [])
    return entries


def test_the_settings_are_good() -> None:
    literals = [
        literal.split("=", 1)
        for entry in KUSTOMIZATION["configMapGenerator"]
        for literal in entry.get("literals", ())
    ]
    settings = Settings.read(dict(literals) | {"MLSCOPE_AGENT_ID": "node-7.rack.example"})
    assert settings.agent_id == "node-7-rack-example"
    assert settings.nats_url.count("tls://") == OBJECTS["StatefulSet", "nats"]["spec"]["replicas"]


def test_the_gateway_has_room_for_the_datasets_that_it_takes_at_a_time() -> None:
    spec = PODS["gateway"]["spec"]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    disk = bytes_of(volumes["tmp"]["emptyDir"]["sizeLimit"] + "B")
    memory = bytes_of(spec["containers"][0]["resources"]["limits"]["memory"] + "B")
    assert disk >= MOST_AT_ONCE * (1 + TIMES_UNPACKED) * Settings().max_upload_bytes
    assert memory >= MOST_AT_ONCE * MEMORY_BYTES + (1 << 30), "1 GiB is for the gateway itself"


def make_keys(out: Path, *people: str) -> None:
    """Make the secrets in `out` with the documented command, and keys of `people`."""
    hosts = [f"nats-{number}.nats" for number in range(3)]
    names = {"agent": [], "person": list(people), "address": []}
    assert keys(Namespace(out=out, owner=None, broker=hosts, **names)) == 0


def test_the_documented_command_makes_every_file_that_is_read(tmp_path: Path) -> None:
    make_keys(tmp_path / "keys", "alice:viewer")
    assert (tmp_path / "keys" / "people" / "alice.json").is_file()
    entries = KUSTOMIZATION["secretGenerator"] + KUSTOMIZATION["configMapGenerator"]
    for entry in entries:
        for file in entry.get("files", ()):
            assert (tmp_path / file.rpartition("=")[2]).is_file(), file


def test_every_file_that_a_broker_reads_is_in_its_secret(tmp_path: Path) -> None:
    make_keys(tmp_path)
    texts = [yaml.safe_dump(PODS["nats"])]
    texts += [conf.read_text("utf-8") for conf in (tmp_path / "nats").glob("*.conf")]
    read = {file for text in texts for file in re.findall(r"/etc/nats-keys/([\w.-]+)", text)}
    files = generated("secretGenerator")["brokers"]["files"]
    given = {Path(file).name for file in files}
    assert read <= given
    assert given - read == {f"nats-{number}.conf" for number in range(3)}


def test_agents_run_images_of_framework_manifests() -> None:
    images = {
        image
        for manifest in read_manifests(FOLDER.parent / "manifests")
        if isinstance(manifest, FrameworkManifest)
        for by_device in manifest.containers.values()
        for image in by_device.values()
    }
    for name in ("agent-cpu", "agent-nvidia"):
        container = PODS[name]["spec"]["containers"][0]
        assert container["image"] in images
        values = {entry["name"]: entry.get("value") for entry in environment(PODS[name])}
        assert values["MLSCOPE_AGENT_IMAGE"] == container["image"]


@pytest.mark.parametrize("name", ["nats", "services"])
def test_a_budget_is_for_pods_that_exist(name: str) -> None:
    selector = OBJECTS["PodDisruptionBudget", name]["spec"]["selector"]["matchLabels"]
    chosen = [pod for pod in PODS.values() if selector.items() <= pod["metadata"]["labels"].items()]
    assert len(chosen) == {"nats": 1, "services": len(SERVICES)}[name]
