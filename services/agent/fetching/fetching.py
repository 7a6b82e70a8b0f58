"""Fetches a subject's files into the host's cache before a worker opens its model.

The host does it, in a thread: it has the broker for `artifact://` and the hub's token, which no
worker may see. Fetched files are held in the cache as long as their session lasts.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from mlscope.assets.addresses import ArtifactSource, FileSource, parse
from mlscope.assets.cache import PinnedAsset
from mlscope.assets.checksums import parse_checksum
from mlscope.assets.errors import FetchError
from mlscope.assets.fetching import Repository
from mlscope.assets.opening import AssetSettings, open_assets
from mlscope.bus.errors import BusError
from mlscope.bus.nats.settings import NatsSettings
from mlscope.manifests.verifying import OPTION, RANDOM, RANDOM_ADVICE, refused_in
from schemas.manifest import ModelManifest
from schemas.plan import Subject
from services.agent.errors import FetchFailed, FileUnverified, Stopped
from services.agent.fetching.dataset_requests import LIST, dataset_requests, url_list_requests
from services.agent.fetching.in_place import locate_in_place
from services.agent.fetching.requests import AssetRequest
from services.agent.link.checked_files import source_of
from services.agent.link.fetched_file import FetchedFile

_log = logging.getLogger(__name__)

T = TypeVar("T")
OnProgress = Callable[[AssetRequest, int, int | None], None]
"""Called with a request, the bytes fetched so far, and all its bytes (None: unknown).

It may raise an error to give up.
"""


class FetchSettings(AssetSettings, Protocol):
    """What fetching for an agent needs to know; `mlscope.settings.Settings` has it."""

    @property
    def dataset_folders(self) -> tuple[str, ...]:
        """Folders of this host below which datasets may be read in place."""
        ...


@dataclass(frozen=True, slots=True)
class ArtifactAccess:
    """The connection to the artifact repository, for addresses `artifact://`."""

    settings: NatsSettings
    #: the name of the key to connect with
    key_name: str
    inbox: str = ""


@dataclass(slots=True)
class FetchedAssets:
    """The files fetched for one session, by address, held in the cache until closed."""

    files: dict[str, FetchedFile] = field(default_factory=dict)
    holds: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def add(self, request: AssetRequest, pinned: PinnedAsset) -> None:
        """Add a fetched file."""
        self.holds.enter_context(pinned)
        self.files[request.source.address] = FetchedFile(pinned.path, pinned.sha256)

    def join(self, assets: "FetchedAssets") -> None:
        """Take over the files of `assets`, and their holds."""
        self.files |= assets.files
        self.holds.push(assets.holds.pop_all())

    def close(self) -> None:
        """Release the files; a second call does nothing."""
        self.holds.close()


def model_requests(
    model: ModelManifest, *, random_weights: bool = False
) -> tuple[AssetRequest, ...]:
    """Return the requests for a model's files; those below the manifests folder need none.

    With `random_weights` the weights are not requested. Raises FetchFailed.
    """
    assets = model.model
    if assets.archive:
        source = source_of(assets, assets.archive)
        return (AssetRequest(assets.archive, source, assets.archive_checksum, is_archive=True),)
    checksums = dict(assets.assets)
    if assets.weights_path and assets.weights != "random":
        checksums[assets.weights_path] = assets.weights_checksum
    if assets.graph_path and not assets.builder:
        checksums[assets.graph_path] = assets.checksum
    if random_weights:
        checksums.pop(assets.weights_path, None)
    advices = {assets.weights_path: RANDOM_ADVICE} if assets.builder else {}
    return tuple(
        AssetRequest(name, source, checksum, advice=advices.get(name, ""))
        for name, checksum in checksums.items()
        if not isinstance(source := source_of(assets, name), FileSource)
    )


async def fetch_for_subject(
    subject: Subject, settings: FetchSettings, *, artifacts: ArtifactAccess | None = None
) -> FetchedAssets:
    """Fetch the files of a subject's model and dataset; see `fetch_assets`.

    `settings` are the cache's, and `artifacts` is how `artifact://` addresses are reached. Raises
    FetchFailed; FileUnverified where a file can't be verified and the request does not accept
    that; DatasetUnusable for a list of addresses that can't be read.
    """
    if (fault := refused_in(subject.model.model, subject.options)) is not None:
        raise FileUnverified(fault.address)
    random_weights = subject.options.get(OPTION) == RANDOM
    requests = model_requests(subject.model, random_weights=random_weights)
    requests += dataset_requests(subject.dataset)
    assets = await fetch_assets(requests, settings, artifacts=artifacts)
    source = subject.dataset.source
    if source is None or source.reader != LIST:
        return assets
    with contextlib.ExitStack() as undo:
        undo.callback(assets.close)
        path = assets.files[parse(source.address).address].path / source.path
        listed = url_list_requests(subject.dataset, path)
        assets.join(await fetch_assets(listed, settings, artifacts=artifacts))
        undo.pop_all()
    return assets


async def fetch_assets(
    requests: tuple[AssetRequest, ...],
    settings: FetchSettings,
    *,
    artifacts: ArtifactAccess | None = None,
    on_progress: OnProgress = lambda _request, _bytes, _total_bytes: None,
) -> FetchedAssets:
    """Fetch the files of `requests` in a thread; gives up when cancelled. Raises FetchFailed.

    `settings` are the cache's. Without `artifacts` no `artifact://` address can be fetched.
    `on_progress` is called in the thread.
    """
    if not requests:
        return FetchedAssets()
    is_cancelled = threading.Event()

    def check_progress(request: AssetRequest, fetched: int, total: int | None) -> None:
        if is_cancelled.is_set():
            raise Stopped
        on_progress(request, fetched, total)

    has_artifacts = any(isinstance(request.source, ArtifactSource) for request in requests)
    try:
        async with (
            _repository(artifacts)
            if artifacts is not None and has_artifacts
            else contextlib.nullcontext()
        ) as repository:
            return await in_daemon_thread(
                lambda: _fetch_all(requests, settings, repository, check_progress)
            )
    except (FetchError, BusError) as error:
        raise FetchFailed(str(error)) from error
    finally:
        is_cancelled.set()


def _fetch_all(
    requests: tuple[AssetRequest, ...],
    settings: FetchSettings,
    repository: Repository | None,
    on_progress: OnProgress,
) -> FetchedAssets:
    """Fetch files one after the other; first locate those that are read in place.

    Raises FetchError, AgentError and what `on_progress` raises.
    """
    fetcher = open_assets(settings, repository)
    assets = FetchedAssets()
    with contextlib.ExitStack() as undo:
        undo.callback(assets.close)
        for request in sorted(requests, key=lambda request: not request.in_place):
            address = request.source.address
            if request.in_place:
                folders = settings.dataset_folders
                assets.files[address] = locate_in_place(request, settings.manifests_folder, folders)
                continue
            fetch = fetcher.fetch_tree if request.is_archive else fetcher.fetch
            progress = partial(on_progress, request)
            try:
                checksum = parse_checksum(request.checksum)
                pinned = fetch(request.source, checksum, below=request.below, progress=progress)
            except FetchError as error:
                if not request.is_optional:
                    reason = "; ".join(filter(None, (str(error), request.advice)))
                    raise FetchFailed(reason) from error
                _log.warning("not fetched: %s", error)
                assets.files[address] = FetchedFile(Path(), "", str(error))
            else:
                assets.add(request, pinned)
        undo.pop_all()
    return assets


@contextlib.asynccontextmanager
async def _repository(access: ArtifactAccess) -> AsyncIterator[Repository]:
    from mlscope.assets.artifacts import ThreadedRepository, connect
    from mlscope.assets.uploads import Uploads

    async with connect(access.settings, access.key_name, inbox=access.inbox) as artifacts:
        yield ThreadedRepository(artifacts, Uploads.beside(artifacts))


async def in_daemon_thread(work: Callable[[], T]) -> T:
    """Return the result of `work`, from a thread that the end of this process does not wait for.

    Raises what `work` raises. When the caller is cancelled, the thread goes on; files that it has
    fetched by then are closed.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | BaseException) -> None:
        if future.done():
            if isinstance(result, FetchedAssets):
                result.close()
        elif isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result)

    def run() -> None:
        try:
            result: T | BaseException = work()
        except BaseException as error:  # noqa: BLE001  # raised where it is awaited
            result = error
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, result)

    threading.Thread(target=run, name="fetch", daemon=True).start()
    return await future
