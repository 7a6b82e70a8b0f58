"""The containers that an agent may start: those of its own framework manifests (I/O)."""

import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from schemas.agent import Announcement, ContainerFacts
from schemas.plan import Subject
from services.agent.errors import ContainerRefused, EngineFailed
from services.agent.host.containers.engine import Engine
from services.agent.host.containers.images import allowed_images, container_facts
from services.agent.host.containers.session_container import LABEL, SessionContainer
from services.agent.link.allowances import Allowances
from services.agent.machine.hardware import this_machine

_LOOKING = "it is still looking at its images; ask again in some seconds"


class ContainerSettings(Protocol):
    """What an agent's owner says of containers; `mlscope.settings.Settings` has it."""

    @property
    def containers(self) -> str:
        """The engine whose containers the agent may start: docker, podman, or '' for none."""
        ...

    @property
    def manifests_folder(self) -> Path:
        """The folder with the framework manifests whose images may be started."""
        ...

    @property
    def agent_predictors(self) -> tuple[str, ...]:
        """Frameworks to offer; empty: all."""
        ...

    @property
    def worker_memory_bytes(self) -> int:
        """Memory that a worker may use; 0 is no limit."""
        ...


class Containers:
    """What an agent knows of its engine and images, and the containers of its sessions."""

    def __init__(self, settings: ContainerSettings, owner: Path, allowances: Allowances) -> None:
        """Take the `settings`, the agent's own folder `owner`, and the `allowances` of models."""
        self._settings, self._owner, self._allowances = settings, owner, allowances
        self._engine: Engine | None = None
        self._engine_text = settings.containers
        self._reason = _LOOKING if settings.containers else ""
        self._facts: dict[str, ContainerFacts] = {}

    @property
    def are_allowed(self) -> bool:
        """Whether the agent's owner allows containers."""
        return bool(self._settings.containers)

    def added_to(self, described: Announcement) -> Announcement:
        """Return an announcement with the engine, and what its images have."""
        facts = {
            "engine": self._engine_text,
            "engine_reason": self._reason,
            "containers": tuple(self._facts.values()),
        }
        return described.model_copy(update=facts)

    def remove_leftovers(self) -> None:
        """Remove the containers that former starts of this agent left behind."""
        try:
            engine = Engine.named(self._settings.containers)
            labels = ("--filter", f"label={LABEL}={self._owner}")
            ids = engine.answer("ps", "--all", "--quiet", *labels).split()
            if ids:
                engine.answer("rm", "--force", *ids)
        except EngineFailed:
            return  # `look` says so

    def look(self) -> bool:
        """Look at the engine and at its images; return whether anything is new since the last look.

        An image that was there before is not asked again.
        """
        before = self._engine_text, self._reason, dict(self._facts)
        try:
            engine = Engine.named(self._settings.containers)
            self._engine_text = f"{self._settings.containers} {engine.version()}"
            self._facts = dict(self._looked_at(engine))
        except EngineFailed as error:
            self._reason, self._facts = str(error), {}
        else:
            self._engine, self._reason = engine, ""
        return before != (self._engine_text, self._reason, self._facts)

    def _looked_at(self, engine: Engine) -> Iterable[tuple[str, ContainerFacts]]:
        has_gpu = any(own.kind == "gpu" for own in this_machine().accelerators)
        settings = self._settings
        for allowed in allowed_images(settings.manifests_folder, has_gpu=has_gpu):
            known = self._facts.get(allowed.image)
            if (
                known is None
                or not known.digest
                or engine.image_digest(allowed.image) != known.digest
            ):
                known = container_facts(
                    engine, allowed, self._allowances.builders, settings.agent_predictors
                )
            yield allowed.image, known

    def of_session(self, subject: Subject, readable: Iterable[Path]) -> SessionContainer | None:
        """Return the container for a session of a `subject`, None where it needs none.

        `readable` are the files that its worker reads. Raises ContainerRefused.
        """
        image = subject.container
        if not image:
            return None
        if self._engine is None:
            reason = self._reason or (
                "this agent starts no containers; its owner allows them with MLSCOPE_CONTAINERS"
            )
            raise ContainerRefused(image, reason)
        facts = self._facts.get(image)
        if facts is None:
            raise ContainerRefused(image, "no framework manifest of the agent's own gives it")
        if facts.reason:
            raise ContainerRefused(image, facts.reason)
        return SessionContainer(
            self._engine,
            self._engine_text,
            image,
            facts.digest,
            f"mlscope-session-{secrets.token_hex(6)}",
            self._owner,
            "cpu" if subject.device == "cpu" else "gpu",
            (self._settings.manifests_folder.resolve(), *readable),
            self._settings.worker_memory_bytes,
        )
