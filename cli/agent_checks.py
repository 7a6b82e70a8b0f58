"""What `mlscope doctor` says of an agent here: how models are confined, whose, and from where."""

import asyncio
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cli.findings import Finding
from mlscope.assets.options import AllowedHosts
from mlscope.redaction import redact
from mlscope.settings import Settings
from services.agent.machine.landlock import landlock_version
from services.agent.worker.sandbox.own_user import can_change_user
from services.agent.worker.sandbox.sandbox import missing_parts

if TYPE_CHECKING:
    from services.agent.fetching.host_watch import HostWatch


def sandbox() -> Finding:
    """Check whether the kernel can confine models to their files; under root, as which user."""
    if not (missing := missing_parts()):
        version = f"Landlock {landlock_version()}, filter of system calls"
        text = f"models are confined to their files ({version})"
        return Finding("sandbox", "ok", text + _user_of_models())
    if Settings.read(os.environ).sandbox == "required":
        advice = "an agent here does not start: set MLSCOPE_SANDBOX to auto, or use another machine"
        return Finding("sandbox", "missing", "; ".join(missing), advice)
    if landlock_version():
        rights = "change modes and owners of"
        needed = "Linux with seccomp on x86-64 or 64-bit Arm"
    else:
        rights, needed = "read and write", "Linux 5.13"
    advice = f"models can {rights} the agent's files: open only trusted ones, or use {needed}"
    return Finding("sandbox", "note", "; ".join(missing), advice)


def _user_of_models() -> str:
    """Return what to add for root, whose models may have users of their own."""
    if os.geteuid():
        return ""
    user = Settings.read(os.environ).worker_user
    own = {
        "auto": ", each on a CPU or a GPU of NVIDIA as a user of its own",
        "own": ", each as a user of its own",
    }
    return own.get(user, ", as root") if can_change_user() else ", as root"


def models() -> Finding:
    """Say whose models an agent with these settings opens."""
    if Settings.read(os.environ).opens_any_model:
        advice = "requests may bring their own models; MLSCOPE_MODELS=catalog refuses them"
        return Finding("models", "ok", "an agent here opens any model (MLSCOPE_MODELS)", advice)
    text = "an agent here opens only models of its own catalog (MLSCOPE_MODELS)"
    return Finding("models", "ok", text)


def containers() -> Finding:
    """Say which container engine an agent with these settings may use, and whether it answers."""
    from services.agent.errors import EngineFailed
    from services.agent.host.containers.engine import Engine

    name = Settings.read(os.environ).containers
    if not name:
        advice = "MLSCOPE_CONTAINERS=docker or podman lets it, in images of its framework manifests"
        return Finding("containers", "ok", "an agent here starts no containers", advice)
    try:
        version = Engine.named(name).version()
    except EngineFailed as error:
        advice = "start the engine, let the agent's user use it, or unset MLSCOPE_CONTAINERS"
        return Finding("containers", "note", str(error), advice)
    return Finding("containers", "ok", f"an agent here may start containers of {name} {version}")


def weight_hosts() -> Iterator[Finding]:
    """Try the model hub of an agent with these settings and the other hosts of weights, at once."""
    from services.agent.fetching import host_watch

    settings = Settings.read(os.environ)
    url = settings.hub_url
    if not url:
        advice = "unset MLSCOPE_HUB_URL for the public hub, or set it to the address of yours"
        yield Finding("hub", "ok", "off: an agent here fetches no hf:// addresses", advice)
        return
    allowed = AllowedHosts(settings.fetch_hosts)
    watch = host_watch.HostWatch(url, allowed, settings.assets_folder)
    asyncio.run(_tried(watch, host_watch.LIMIT_S))
    if fault := watch.faults.get(host_watch.HUB):
        weights = "models from hf:// (most of timm's)"
        advice = f"{_advice_without(weights)}; MLSCOPE_HUB_URL=off ends the tries"
        yield Finding("hub", "note", fault, advice)
    else:
        advice = "an agent here fetches hf:// addresses from it; MLSCOPE_HUB_URL=off stops that"
        yield Finding("hub", "ok", f"{redact(url)} answers", advice)
    for host, weights in host_watch.HOSTS.items():
        if fault := watch.faults.get(host):
            yield Finding(f"host {host}", "note", fault, _advice_without(weights))
        else:
            yield Finding(f"host {host}", "ok", f"answers: weights of {weights}")


async def _tried(watch: "HostWatch", limit_s: float) -> None:
    watch.begin()
    await watch.settle(limit_s)


def _advice_without(weights: str) -> str:
    return f"unless they are cached, {weights} need --option weights=random here"
