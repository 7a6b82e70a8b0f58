"""The levels that an agent's trace collectors add. Pure."""

from mlscope.manifests.device_names import gpu_vendors, is_device
from schemas.agent import Announcement
from schemas.level import Level


def collected_levels(
    agent: Announcement, framework: str, device: str, without: frozenset[str] = frozenset()
) -> frozenset[Level]:
    """Return the levels that an agent's trace collectors add for a framework on a device.

    Collectors named in `without` are left out.
    """
    vendors = gpu_vendors(agent.hardware)
    return frozenset(
        level
        for collector in agent.collectors
        if collector.name not in without
        and (
            not collector.devices
            or any(is_device(device, own, vendors) for own in collector.devices)
        )
        and (not collector.frameworks or framework in collector.frameworks)
        for level in collector.levels
    )
