"""Brings what a subject's files are elsewhere: fetched into the host's cache before a worker opens.

The agent does it, in a thread: it has the broker for `artifact://` and the hub's token, which no
worker may see. What was brought is held in the cache as long as the session lasts.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from mlscope.assets.addresses import ArtifactSource, FileSource, parse
from mlscope.assets.checksums import parse_checksum
from mlscope.assets.errors import AssetError
from mlscope.bus.errors import BusError
from mlscope.manifests.verifying import OPTION, RANDOM, refused_in
from schemas.manifest import Assets, ModelManifest
from schemas.plan import Subject
from services.agent.assets import Brought, source_of
from services.agent.dataset_needs import LIST, dataset_needs, listed_needs
from services.agent.errors import AssetUnusable, AssetUnverified, Stopped
from services.agent.in_place import placed
from services.agent.needs import Need

_log = logging.getLogger(__name__)

T = TypeVar("T")
Told = Callable[["Need", int, int | None], None]
"""Told of a file, the bytes here, and in all or None while unknown; may raise to give up."""


@dataclass(slots=True)
class Goods:
    """What was brought for one session, by address; it stays in the cache until closed."""

    files: dict[str, Brought] = field(default_factory=dict)
    held: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def add(self, need: Need, held: Any) -> None:
        """Take in what was fetched."""
        self.held.enter_context(held)
        self.files[need.source.address] = Brought(held.path, held.sha256)

    def lack(self, need: Need, reason: str) -> None:
        """Note that something could not be had."""
        self.files[need.source.address] = Brought(Path(), "", reason)

    def join(self, other: "Goods") -> None:
        """Take over what was brought besides."""
        self.files |= other.files
        self.held.push(other.held.pop_all())

    def words(self) -> dict[str, list[str]]:
        """Return what a worker is told of it."""
        found = self.files.items()
        return {name: [str(each.path), each.sha256, each.lost] for name, each in found}

    def close(self) -> None:
        """Let go of it; again does no harm."""
        self.held.close()


def brought_of(words: Mapping[str, list[str]]) -> dict[str, Brought]:
    """Return what an agent's words say was brought."""
    return {name: Brought(Path(path), *rest) for name, (path, *rest) in words.items()}


def needs_of(model: ModelManifest, *, random_weights: bool = False) -> tuple[Need, ...]:
    """Return what must be brought for a model; files below the manifests folder need not.

    Raises AssetUnusable.
    """
    assets = model.model
    if assets.archive:
        source = source_of(assets, assets.archive)
        return (Need(assets.archive, source, assets.archive_checksum, is_archive=True),)
    needs = (Need(name, source_of(assets, name), sum_) for name, sum_ in _files(assets).items())
    return tuple(
        each
        for each in needs
        if not isinstance(each.source, FileSource)
        and not (random_weights and each.name == assets.weights_path)
    )


def is_random(subject: Subject) -> bool:
    """Say whether a request asks for random weights in place of the manifest's."""
    return subject.options.get(OPTION) == RANDOM


def _files(assets: Assets) -> dict[str, str]:
    files = dict(assets.assets)
    if assets.weights_path and assets.weights != "random":
        files[assets.weights_path] = assets.weights_checksum
    if assets.graph_path and not assets.builder:
        files[assets.graph_path] = assets.checksum
    return files


def bring(fetcher: Any, needs: tuple[Need, ...], told: Told) -> Goods:
    """Fetch what is needed, one after the other; waits. Raises AssetUnusable, what `told` raises.

    `fetcher` is `mlscope.assets.fetching.Assets`. Nothing is brought of what may lack and does.
    """
    goods = Goods()
    with contextlib.ExitStack() as undo:
        undo.callback(goods.close)
        for need in needs:
            fetch = fetcher.fetch_tree if need.is_archive else fetcher.fetch

            def progress(here: int, whole: int | None, need: Need = need) -> None:
                told(need, here, whole)

            try:
                checksum = parse_checksum(need.checksum)
                goods.add(need, fetch(need.source, checksum, below=need.below, progress=progress))
            except AssetError as error:
                if not need.may_lack:
                    raise AssetUnusable(str(error)) from error
                _log.warning("not brought: %s", error)
                goods.lack(need, str(error))
        undo.pop_all()
    return goods


def _quiet(_: Need, __: int, ___: int | None) -> None:
    """Take no notice."""


def _brought(fetcher: Any, needs: tuple[Need, ...], told: Told, settings: Any) -> Goods:
    """Fetch what is elsewhere, and see to what lies here. Raises AssetError."""
    goods = Goods()
    allowed = getattr(settings, "dataset_folders", ())
    for need in needs:
        if need.in_place:
            found = placed(need, settings.manifests_folder, allowed)
            goods.files[need.source.address] = found
    goods.join(bring(fetcher, tuple(each for each in needs if not each.in_place), told))
    return goods


async def bring_for(subject: Subject, settings: Any, *, inbox: str = "", name: str = "") -> Goods:
    """Bring what a subject needs, model and dataset; see `bring_needs`.

    Raises AssetUnverified where a file can't be verified and the request does not take it so, and
    DatasetUnusable for a list of addresses that can't be read.
    """
    if (fault := refused_in(subject.model.model, subject.options)) is not None:
        raise AssetUnverified(fault.address)
    needs = needs_of(subject.model, random_weights=is_random(subject))
    needs += dataset_needs(subject.dataset)
    goods = await bring_needs(needs, settings, inbox=inbox, name=name)
    source = subject.dataset.source
    if source is None or source.reader != LIST:
        return goods
    with contextlib.ExitStack() as undo:
        undo.callback(goods.close)
        path = goods.files[parse(source.address).address].path / source.path
        listed = listed_needs(subject.dataset, path)
        goods.join(await bring_needs(listed, settings, inbox=inbox, name=name))
        undo.pop_all()
    return goods


async def bring_needs(
    needs: tuple[Need, ...], settings: Any, *, inbox: str = "", name: str = "", told: Told = _quiet
) -> Goods:
    """Fetch what is needed; the loop goes on meanwhile. Raises AssetUnusable.

    `settings` has what `AssetSettings` says, and for artifacts what a connection needs, under the
    key called `name`; without one no artifact can be had. Given up when cancelled.
    """
    if not needs:
        return Goods()
    from mlscope.assets.opening import open_assets

    gone = threading.Event()

    def heard(need: Need, here: int, whole: int | None) -> None:
        if gone.is_set():
            raise Stopped
        told(need, here, whole)

    has_artifacts = bool(name) and any(isinstance(each.source, ArtifactSource) for each in needs)
    try:
        async with _repository(settings, name, inbox) if has_artifacts else _none() as repository:
            fetcher = open_assets(settings, repository)
            return await _in_thread(lambda: _brought(fetcher, needs, heard, settings))
    except (AssetError, BusError) as error:
        raise AssetUnusable(str(error)) from error
    finally:
        gone.set()


@contextlib.asynccontextmanager
async def _none() -> AsyncIterator[None]:
    yield None


@contextlib.asynccontextmanager
async def _repository(settings: Any, name: str, inbox: str) -> AsyncIterator[Any]:
    from mlscope.assets.artifacts import ThreadedRepository, connect
    from mlscope.assets.uploads import Uploads

    async with connect(settings, name, inbox=inbox) as artifacts:
        yield ThreadedRepository(artifacts, Uploads.beside(artifacts))


async def _in_thread(work: Callable[[], T]) -> T:
    """Return what `work` returns, from a thread that no end of this process waits for."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(outcome: T | BaseException) -> None:
        if future.done():
            if isinstance(outcome, Goods):
                outcome.close()
        elif isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    def run() -> None:
        try:
            outcome: T | BaseException = work()
        except BaseException as error:  # noqa: BLE001  # raised where it is waited for
            outcome = error
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, outcome)

    threading.Thread(target=run, name="bring", daemon=True).start()
    return await future
