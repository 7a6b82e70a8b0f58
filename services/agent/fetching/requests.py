"""A request for a file that does not lie below the manifests folder. Pure."""

from dataclasses import dataclass

from mlscope.assets.addresses import Source


@dataclass(frozen=True, slots=True)
class AssetRequest:
    """One file to fetch, or an archive of several."""

    name: str
    source: Source
    checksum: str
    is_archive: bool = False
    #: the folder of the manifests that a relative path starts from
    below: str = "models"
    #: a file or folder of this host that is read where it lies, if the agent's owner allows it
    in_place: bool = False
    #: where it can't be fetched, one sample is lost, not the session
    is_optional: bool = False
    #: what to do where it can't be fetched, for the reader of the error
    advice: str = ""
