"""Why the local cluster could not do what it was asked; a docstring is the message."""

from pathlib import Path


class ClusterError(Exception):
    """The local cluster could not do what it was asked."""

    def __str__(self) -> str:
        """Return the error's meaning, then its fields, a line each."""
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
        """Name the process, its log and what it said last."""
        super().__init__(name)
        self.name = name
        self.log = log
        self.last_lines = last_lines


class WrongDataVersion(ClusterError):
    """The data folder was made by another major version of PostgreSQL."""

    def __init__(self, folder: Path, found: str, wanted: str) -> None:
        """Name the folder, the version of its data and the one that runs."""
        super().__init__(folder)
        self.folder = folder
        self.found = found
        self.wanted = wanted


class DataUnreachable(ClusterError):
    """PostgreSQL's data lies below a folder that the user it runs as can no longer enter."""

    def __init__(self, folder: Path) -> None:
        """Name the folder."""
        super().__init__(folder)
        self.folder = folder


class DatabaseInitFailed(ClusterError):
    """PostgreSQL's initdb refused to make the data folder."""

    def __init__(self, folder: Path, output: str) -> None:
        """Name the folder and what initdb printed."""
        super().__init__(folder)
        self.folder = folder
        self.output = output


class AlreadyUp(ClusterError):
    """Another `mlscope up` holds this data folder."""

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


class ProvisionFailed(ClusterError):
    """`mlscope provision` failed, so no service was started; its log says why."""

    def __init__(self, log: Path, last_lines: str) -> None:
        """Name the log and its last lines."""
        super().__init__(log)
        self.log = log
        self.last_lines = last_lines
