"""What an agent can run on this machine, found without importing a framework."""

import platform
from collections.abc import Collection, Iterator, Mapping

from schemas.agent import Accelerator, Announcement, CollectorFacts, Hardware, Runtime
from schemas.level import Level
from schemas.values.framework_names import predictors_name
from services.agent.collectors import availability_of, collector_names
from services.agent.link.allowances import DEFAULT_ALLOWANCES, Allowances
from services.agent.machine.hardware import package_version, this_machine
from services.agent.machine.packages import onnxruntime_build, package_facts
from services.agent.predictors import SHIPPED, predictor_names
from services.agent.predictors.devices import (
    DeclaredDevices,
    declared_devices,
    declared_level,
    option_names,
)

_DISTRIBUTIONS: Mapping[str, tuple[str, ...]] = {
    "jax": ("jax",),
    "litert": ("ai-edge-litert",),
    "onnxruntime": ("onnxruntime-gpu", "onnxruntime"),
    "openvino": ("openvino",),
    "pytorch": ("torch",),
    "remote": (),
    "tensorflow": ("tensorflow", "tensorflow-cpu"),
    "tensorrt": ("tensorrt",),
}
"""Any of these distributions contains the framework; a predictor with an empty tuple needs none."""
_ONLY_IF_NAMED = frozenset({"remote"})
"""Not offered unless the agent's owner names it: its figures are another machine's."""
_DEEPEST: Mapping[str, Level] = dict.fromkeys(
    ("jax", "onnxruntime", "openvino", "pytorch", "tensorflow"), Level.FRAMEWORK
)
_GPU_DISTRIBUTIONS = frozenset({"onnxruntime-gpu", "tensorflow", "tensorrt"})
_TORCH_BUILDS: Mapping[str, Mapping[str, str]] = {
    "cpu": {},
    "rocm": {"amd": "rocm"},
    "xpu": {"intel": "xpu"},
}
"""By the beginning of the build in PyTorch's version; others are for CUDA."""
_DIGITS = 12
_JAX_GPU_PLUGINS = ("jax-cuda12-plugin", "jax-cuda13-plugin")


def announcement(
    agent: str,
    incarnation: str,
    *,
    image: str = "",
    labels: Mapping[str, str] | None = None,
    predictors: tuple[str, ...] = (),
    allowances: Allowances = DEFAULT_ALLOWANCES,
) -> Announcement:
    """Return the announcement of an `agent`'s start, its `incarnation`.

    `image` is the container image it runs in, `labels` are its owner's, `predictors` limits the
    frameworks it offers, and `allowances` are what models may use. Whether a model hub is set is
    the caller's to add.
    """
    hardware = hardware_with_declared(this_machine(), predictors)
    return Announcement(
        agent=agent,
        incarnation=incarnation,
        hardware=hardware,
        runtimes=tuple(installed_runtimes(predictors, hardware.accelerators)),
        collectors=tuple(known_collectors()),
        image=image,
        labels=dict(labels or {}),
        allows_inline_python=allowances.inline is not None,
        builders=tuple(allowances.builders),
        packages=tuple(package_facts(allowances.builders)),
        remote_hosts=allowances.remote_hosts,
        mlscope_version=package_version("mlscope"),
        python_version=platform.python_version(),
    )


def limited_to(described: Announcement, models: Collection[str] | None) -> Announcement:
    """Return an announcement of an agent that opens the models with these digests alone; None: any.

    The digests are shortened to the digits that matching compares.
    """
    names = None if models is None else tuple(sorted(name[:_DIGITS] for name in models))
    return described.model_copy(update={"models": names})


def known_collectors() -> Iterator[CollectorFacts]:
    """Yield every collector with its levels on this machine, and why others are missing."""
    for name in collector_names():
        availability = availability_of(name)
        yield CollectorFacts(
            name=name,
            levels=availability.levels,
            reason=availability.reason,
            devices=availability.devices,
            frameworks=availability.frameworks,
        )


def installed_runtimes(
    names: tuple[str, ...], accelerators: tuple[Accelerator, ...]
) -> Iterator[Runtime]:
    """Yield the installed frameworks that have a predictor, on CPU and on `accelerators`.

    `names` selects some; empty selects all but those that run models on other machines. One whose
    package declares its devices (`mlscope.devices`) is on these and no others.
    """
    vendors = {own.vendor or "nvidia" for own in accelerators if own.kind == "gpu"}
    for name, (distribution, version) in _offered(names):
        served = gpus_served(distribution, version)
        on_gpus = tuple(device for vendor, device in served.items() if vendor in vendors)
        usual = DeclaredDevices(("cpu", *on_gpus))
        devices = declared_devices(name) or usual
        yield Runtime(
            framework=name,
            version=version,
            devices=devices.names,
            device_reason=devices.reason,
            deepest_level=declared_level(name) or _DEEPEST.get(name, Level.MODEL),
            options=option_names(name),
        )


def hardware_with_declared(hardware: Hardware, names: tuple[str, ...]) -> Hardware:
    """Return `hardware` with the accelerators that packages of predictors found.

    One that two of them found counts once. `names` selects frameworks as in `installed_runtimes`.
    """
    accelerators = hardware.accelerators
    for name, _ in _offered(names):
        if devices := declared_devices(name):
            accelerators += tuple(own for own in devices.accelerators if own not in accelerators)
    return hardware.model_copy(update={"accelerators": accelerators})


def _offered(names: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield each framework to offer with its distribution and version; `names` selects some."""
    selected = {predictors_name(name) for name in names}
    for name in predictor_names():
        installed = installed_distribution(name)
        if installed and (name in selected if names else name not in _ONLY_IF_NAMED):
            yield name, installed


def gpus_served(distribution: str, version: str) -> Mapping[str, str]:
    """Return the vendors whose GPUs a build has code for, each with its name of their devices.

    PyTorch's builds say in their `version` what they are for; on macOS, they are for Apple's too.
    """
    if distribution == "jax":
        has_plugin = any(package_version(plugin) for plugin in _JAX_GPU_PLUGINS)
        return {"nvidia": "gpu"} if has_plugin else {}
    if distribution == "torch":
        build = version.partition("+")[2]
        special = (own for name, own in _TORCH_BUILDS.items() if build.startswith(name))
        return next(special, {"nvidia": "gpu", "apple": "mps"})
    is_for_gpus = distribution in _GPU_DISTRIBUTIONS and not version.endswith("+cpu")
    return {"nvidia": "gpu"} if is_for_gpus else {}


def installed_distribution(framework: str) -> tuple[str, str] | None:
    """Return the distribution that contains a framework, and its version; None if not installed.

    A predictor of another package needs no distribution: without one called like its framework it
    counts as installed with mlscope's version. A shipped one not listed above never does. Of ONNX
    Runtime's distributions, which share their files, it is the one that was installed last.
    """
    if framework == "onnxruntime" and (build := onnxruntime_build()):
        return build
    is_shipped = framework in SHIPPED
    distributions = _DISTRIBUTIONS.get(framework, () if is_shipped else (framework,))
    for distribution in distributions:
        if version := package_version(distribution):
            return distribution, version
    if is_shipped and (distributions or framework not in _DISTRIBUTIONS):
        return None
    return framework, package_version("mlscope") or "0"
