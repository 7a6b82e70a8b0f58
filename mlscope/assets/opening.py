"""Assets as the settings say: where the cache is, how large it grows, which hub is asked."""

from pathlib import Path
from typing import Protocol

from mlscope.assets.cache import Cache
from mlscope.assets.fetching import Assets, Repository
from mlscope.assets.options import Options


class AssetSettings(Protocol):
    """What fetching needs to know; `mlscope.settings.Settings` has it."""

    @property
    def manifests_folder(self) -> Path:
        """Where `file:` addresses must stay."""
        ...

    @property
    def assets_folder(self) -> Path:
        """Where the cache of this host is."""
        ...

    @property
    def cache_max_bytes(self) -> int:
        """How large it grows."""
        ...

    @property
    def hub_url(self) -> str:
        """Where `hf://` addresses lead; empty: nowhere."""
        ...

    def hub_token(self) -> str | None:
        """Read the hub's token: a secret."""
        ...


def open_assets(settings: AssetSettings, repository: Repository | None = None) -> Assets:
    """Return what fetches; `repository` is None where no broker is. Raises CacheUnusable."""
    cache = Cache(settings.assets_folder, settings.cache_max_bytes)
    options = Options(hub_url=settings.hub_url, hub_token=settings.hub_token() or "")
    root = settings.manifests_folder
    return Assets(cache, root, options=options, repository=repository)
