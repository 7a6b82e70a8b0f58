"""Opens the assets as configured by the settings: cache folder, size limit, hub."""

from pathlib import Path
from typing import Protocol

from mlscope.assets.cache import Cache
from mlscope.assets.fetching import Assets, Repository
from mlscope.assets.options import AllowedHosts, FetchOptions, RetryPolicy


class AssetSettings(Protocol):
    """The settings of fetching; `mlscope.settings.Settings` implements them."""

    @property
    def manifests_folder(self) -> Path:
        """The folder that the paths of `file:` addresses must stay in."""
        ...

    @property
    def assets_folder(self) -> Path:
        """The folder of this host's cache."""
        ...

    @property
    def cache_max_bytes(self) -> int:
        """The size limit of the cache."""
        ...

    @property
    def fetch_hosts(self) -> tuple[str, ...]:
        """The hosts that may be fetched from."""
        ...

    @property
    def fetch_timeout_s(self) -> float:
        """The limit of the time of one download."""
        ...

    @property
    def hub_url(self) -> str:
        """The model hub of `hf://` addresses; empty: none."""
        ...

    def hub_token(self) -> str | None:
        """Read the hub's token, a secret; None if there is none."""
        ...


def open_assets(settings: AssetSettings, repository: Repository | None = None) -> Assets:
    """Return the assets as configured by `settings`.

    `repository` is None where no NATS server is connected. Raises CacheUnusable.
    """
    cache = Cache(settings.assets_folder, settings.cache_max_bytes)
    options = FetchOptions(
        allowed_hosts=AllowedHosts(settings.fetch_hosts),
        hub_url=settings.hub_url,
        hub_token=settings.hub_token() or "",
        retries=RetryPolicy(limit_s=settings.fetch_timeout_s),
    )
    root = settings.manifests_folder
    return Assets(cache, root, options=options, repository=repository)
