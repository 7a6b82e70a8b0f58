"""Errors of the local cluster; the docstring of a class is its message."""

from collections.abc import Sequence
from pathlib import Path

from mlscope.texts.printable import printable


class ClusterError(Exception):
    """The local cluster failed."""

    def __str__(self) -> str:
        """Return the error's sentence, then its fields, a line each."""
        sentence = (type(self).__doc__ or "").strip().splitlines()[0]
        texts = {name: str(value).strip() for name, value in vars(self).items()}
        fields = [f"{name}: {text}" for name, text in texts.items() if text]
        return "\n  ".join([sentence, *(line.replace("\n", "\n    ") for line in fields)])


class ProgramMissing(ClusterError):
    """A program that the local cluster runs is not installed: pip install 'mlscope[local]'."""

    def __init__(self, program: str) -> None:
        """Name the program."""
        super().__init__(program)
        self.program = program


class NotReady(ClusterError):
    """A server did not become ready in time, or ended at once; its log says why."""

    def __init__(self, name: str, log: Path, last_lines: str) -> None:
        """Give the `name` of the process, the path of its `log`, and the log's `last_lines`."""
        super().__init__(name)
        self.name = name
        self.log = log
        self.last_lines = last_lines


class WrongDataVersion(ClusterError):
    """The data folder was created by another major version of PostgreSQL."""

    def __init__(self, folder: Path, data_version: str, program_version: str) -> None:
        """Give the data `folder` and two major versions.

        `data_version` created the folder, `program_version` is installed.
        """
        super().__init__(folder)
        self.folder = folder
        self.data_version = data_version
        self.program_version = program_version


class DataUnreachable(ClusterError):
    """PostgreSQL's user can no longer enter the folder of its data: chmod o+x its parents."""

    def __init__(self, folder: Path) -> None:
        """Name the folder."""
        super().__init__(folder)
        self.folder = folder


class NoDatabaseFolder(ClusterError):
    """PostgreSQL cannot run as root, and no folder for its data could be created: run as a user."""

    def __init__(self, tried: Sequence[Path]) -> None:
        """Name the folders that were tried."""
        super().__init__(tried)
        self.tried = ", ".join(map(str, tried))


class DatabaseInitFailed(ClusterError):
    """PostgreSQL's initdb could not create the data folder."""

    def __init__(self, folder: Path, output: str) -> None:
        """Name the folder and what initdb printed."""
        super().__init__(folder)
        self.folder = folder
        self.output = output


class DatabaseHeld(ClusterError):
    """The database gets a user of its own, but processes of `nobody` have its files: end them."""

    def __init__(self, folder: Path, processes: Sequence[int]) -> None:
        """Name the folder, and the ids of the `processes`."""
        super().__init__(folder)
        self.folder = folder
        self.processes = ", ".join(map(str, processes))


class DatabasePlanted(ClusterError):
    """`nobody` owns a link among the database's files: you made it, or a process planted it."""

    def __init__(self, path: Path, target: Path, to_keep: str) -> None:
        """Give the `path` of a symbolic link, and the `target` that it leads to.

        `to_keep`: how both become the database's own user's.
        """
        super().__init__(path)
        self.path = printable(str(path))
        self.leads_to = printable(str(target))
        self.if_you_made_it = to_keep
        self.if_you_did_not = "look at what it leads to, remove the link alone, and start again"


class DatabaseFileShared(ClusterError):
    """A file of the database has further names, by which `nobody` could go on changing it."""

    def __init__(self, path: Path, find_names: str, to_keep: str) -> None:
        """Give the `path` of the file, the command that finds its names, and how to keep its rows.

        `find_names` lists all names of the file, and may be ''; after `to_keep`, only a copy is the
        database's.
        """
        super().__init__(path)
        self.path = printable(str(path))
        self.its_names = find_names
        self.to_keep_its_rows = to_keep


class CertificateIncomplete(ClusterError):
    """A server shows a certificate with its key: set both, or neither for an authority of our own.

    The settings are MLSCOPE_TLS_CERTIFICATE_FILE and MLSCOPE_TLS_KEY_FILE.
    """

    def __init__(self, certificate: Path | None, key: Path | None) -> None:
        """Give the two files; one is None."""
        super().__init__(certificate, key)
        self.certificate_file = certificate or "not set"
        self.key_file = key or "not set"


class NotAnAddress(ClusterError):
    """`--listen` needs an IPv4 address of this machine, or a name of one; IPv6 is not supported."""

    def __init__(self, address: str) -> None:
        """Give the `address` that was asked for."""
        super().__init__(address)
        self.address = address


class PortTaken(ClusterError):
    """Another process has a port by which this cluster is known: end that process."""

    def __init__(self, name: str, address: str) -> None:
        """Give the `name` of the server and its `address`, with the port."""
        super().__init__(name)
        self.name = name
        self.address = address


class AlreadyUp(ClusterError):
    """Another `mlscope up` uses this data folder: mlscope down."""

    def __init__(self, folder: Path) -> None:
        """Name the folder."""
        super().__init__(folder)
        self.folder = folder


class NotUp(ClusterError):
    """No local cluster runs from this data folder: mlscope up."""

    def __init__(self, folder: Path) -> None:
        """Name the folder."""
        super().__init__(folder)
        self.folder = folder


class ForeignState(NotUp):
    """Another user wrote what this data folder says of its cluster; it could lead you anywhere."""

    def __init__(self, folder: Path, owner: int) -> None:
        """Name the folder and the `owner` (uid) of its state."""
        super().__init__(folder)
        self.owner = f"uid {owner}; run as that user, or name another folder with --data"


class ForeignFolder(ClusterError):
    """The data folder holds what another user put there, who may know its keys: use another one."""

    def __init__(self, path: Path, owner: int) -> None:
        """Name a `path` in the folder, and its `owner` (uid)."""
        super().__init__(path)
        self.path = path
        self.owner = f"uid {owner}"


class ProvisionFailed(ClusterError):
    """`mlscope provision` failed, so no service was started; its log says why."""

    def __init__(self, log: Path, last_lines: str) -> None:
        """Name the log and its last lines."""
        super().__init__(log)
        self.log = log
        self.last_lines = last_lines


class StopRequested(Exception):
    """A signal asked the cluster to stop."""
