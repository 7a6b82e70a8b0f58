"""A file that is elsewhere, as an agent is told to bring it."""

from dataclasses import dataclass

from mlscope.assets.addresses import Source


@dataclass(frozen=True, slots=True)
class Need:
    """One file that is elsewhere, or an archive of several."""

    name: str
    source: Source
    checksum: str
    is_archive: bool = False
    #: the folder of the manifests that a relative path starts from
    below: str = "models"
    #: a file or folder of this host that is read where it lies, if the agent's owner allows it
    in_place: bool = False
    #: without it a sample is lost, not the session
    may_lack: bool = False
