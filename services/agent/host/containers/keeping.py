"""The containers that an agent may start: those of its own framework manifests (I/O)."""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from mlscope.manifests.device_names import gpu_vendors, is_gpu
from mlscope.tracing.clock import now_ns
from schemas.agent import Announcement, ContainerFacts
from schemas.plan import Subject
from services.agent.errors import ContainerRefused, EngineFailed, GivenUp
from services.agent.host.containers.engine import LABEL, Engine
from services.agent.host.containers.images import (
    AllowedImage,
    Asker,
    ImageAnswer,
    allowed_images,
    image_answer,
)
from services.agent.host.containers.session_container import SessionContainer
from services.agent.link.allowances import Allowances
from services.agent.link.bounds import BoundSettings
from services.agent.machine.hardware import this_machine

_RETRY_S = 60.0
_MOST_RETRY_S = 3600.0
_log = logging.getLogger(__name__)
_LOOKING = "it is still looking at its images; ask again in some seconds"


class ContainerSettings(BoundSettings, Protocol):
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


@dataclass(frozen=True, slots=True)
class FormerAnswer:
    """The answer of an image, remembered so that the image is not asked again."""

    answer: ImageAnswer
    #: CLOCK_MONOTONIC
    asked_ns: int
    #: until it is asked again if its answer may change; each time twice as long, up to an hour
    pause_s: float

    def is_outdated(self, digest: str, time_ns: int) -> bool:
        """Tell whether to ask again at a time: the image has another `digest`, or is due."""
        is_due = self.answer.may_change and time_ns - self.asked_ns >= self.pause_s * 1e9
        return is_due or not digest or digest != self.answer.facts.digest


class Containers:
    """What an agent knows of its engine and images, and the containers of its sessions."""

    def __init__(
        self,
        settings: ContainerSettings,
        owner: Path,
        allowances: Allowances,
        clock_ns: Callable[[], int] = now_ns,
    ) -> None:
        """Take the `settings`, the agent's own folder `owner`, and the `allowances` of models.

        `clock_ns` tells the time by which images are asked again (CLOCK_MONOTONIC).
        """
        self._settings, self._owner, self._clock_ns = settings, owner, clock_ns
        self._asker = Asker(owner, allowances.builders, settings.agent_predictors)
        self._engine: Engine | None = None
        self._engine_text = settings.containers
        self._reason = _LOOKING if settings.containers else ""
        self._facts: dict[str, ContainerFacts] = {}
        self._answers: dict[AllowedImage, FormerAnswer] = {}
        self._looking = asyncio.Lock()
        #: a look is to end at once: an order waits, or the agent ends
        self._is_interrupted = False

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

    def remove_leftovers(self, engine: Engine) -> None:
        """Remove the containers that former starts of this agent left behind. Raises GivenUp."""
        with contextlib.suppress(EngineFailed):  # `look` says so
            labels = ("--filter", f"label={LABEL}={self._owner}")
            if ids := engine.answer("ps", "--all", "--quiet", *labels).split():
                engine.remove(*ids)

    @contextlib.asynccontextmanager
    async def undisturbed(self) -> AsyncIterator[None]:
        """Let nothing look at images within this context: it would disturb what is measured.

        A look that is under way ends at once.
        """
        self._is_interrupted = True
        async with self._looking:
            self._is_interrupted = False
            yield

    async def refresh(self) -> bool:
        """Ask the engine and its images what they have; return whether anything is new.

        An image that has answered is not asked again. A look that is interrupted changes nothing,
        and the next one goes on where it ended.
        """
        async with self._looking:
            before = self._engine_text, self._reason, self._facts
            try:
                await asyncio.to_thread(self._refresh)
            except GivenUp:
                return False
            except asyncio.CancelledError:
                self._is_interrupted = True  # the agent ends, and would wait for the thread
                raise
            return before != (self._engine_text, self._reason, self._facts)

    def _refresh(self) -> None:
        try:
            engine = Engine.named(self._settings.containers)
            asking = replace(engine, is_given_up=lambda: self._is_interrupted)
            engine_text = f"{self._settings.containers} {asking.version()}"
            if self._engine is None:
                # No session runs in a container yet.
                self.remove_leftovers(asking)
            facts = dict(self._looked_at(asking))
        except GivenUp:
            raise
        except EngineFailed as error:
            self._reason, self._facts = str(error), {}
        except Exception as error:  # noqa: BLE001  # a broken library must not end the agent
            _log.exception("container images were not checked")
            self._reason, self._facts = f"container images were not checked: {error}", {}
        else:
            self._engine, self._engine_text = engine, engine_text
            self._reason, self._facts = "", facts

    def _looked_at(self, engine: Engine) -> Iterable[tuple[str, ContainerFacts]]:
        has_gpu = "nvidia" in gpu_vendors(this_machine())
        for allowed in allowed_images(self._settings.manifests_folder, has_gpu=has_gpu):
            former = self._answers.get(allowed)
            digest = engine.image_digest(allowed.image)
            if former is None or former.is_outdated(digest, self._clock_ns()):
                pause_s = _RETRY_S
                if former is not None and digest == former.answer.facts.digest:
                    pause_s = min(2 * former.pause_s, _MOST_RETRY_S)
                answer = image_answer(engine, allowed, self._asker)
                former = self._answers[allowed] = FormerAnswer(answer, self._clock_ns(), pause_s)
            yield allowed.image, former.answer.facts

    def of_session(self, subject: Subject, readable: Iterable[Path]) -> SessionContainer | None:
        """Return the container for a session of a `subject`, None where it needs none.

        `readable` are the files that its worker reads. Raises ContainerRefused.
        """
        image = subject.container
        if not image:
            return None
        if self._engine is None or self._reason:
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
            "gpu" if is_gpu(subject.device) else "cpu",
            (self._settings.manifests_folder.resolve(), *readable),
            self._settings.worker_memory_bytes,
            self._settings.worker_processes,
        )
