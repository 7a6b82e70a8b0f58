"""An agent as it is within the containers that it may start. Pure."""

from collections.abc import Iterable, Iterator

from schemas.agent import Announcement
from schemas.manifest import FrameworkManifest
from services.scheduler.placement.naming import is_same
from services.scheduler.placement.requirements import OF_MANIFEST, container_of

NOT_ALLOWED = "its owner allows no containers (MLSCOPE_CONTAINERS=docker or podman)"


def within_containers(
    agent: Announcement,
    need: str,
    framework: str,
    device: str,
    frameworks: Iterable[FrameworkManifest],
) -> Iterator[Announcement | str]:
    """Yield an agent as it is within each image that a need means, or why it can't start that.

    `need` is the name of an image, or `manifest` for those that the manifests of a `framework`
    among `frameworks` give for the agent's architecture and `device` ('' prefers a CPU).
    """
    if agent.engine_reason or not agent.engine:
        yield agent.engine_reason or NOT_ALLOWED
        return
    by_image = {container.image: container for container in agent.containers}
    for image in _meant_images(agent, need, framework, device, frameworks):
        container = by_image.get(image)
        if container is None:
            yield f"container {image} is not of a framework manifest of the agent's own"
        elif container.reason:
            yield f"container {image} {container.reason}"
        else:
            yield agent.model_copy(
                update={
                    "image": image,
                    "runtimes": container.runtimes,
                    "collectors": container.collectors,
                    "packages": container.packages,
                    "mlscope_version": container.mlscope_version,
                    "python_version": container.python_version,
                    "containers": (),
                }
            )


def _meant_images(
    agent: Announcement,
    need: str,
    framework: str,
    device: str,
    frameworks: Iterable[FrameworkManifest],
) -> Iterable[str]:
    if need != OF_MANIFEST:
        return (need,)
    own = (manifest for manifest in frameworks if is_same(manifest.name, framework))
    images = (container_of(manifest, agent, device) for manifest in own)
    return dict.fromkeys(filter(None, images))
