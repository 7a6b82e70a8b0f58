"""Errors of backups."""


class BackupError(Exception):
    """A backup cannot be made or restored."""


class BrokenBackup(BackupError):
    """A file is no backup, or not whole."""

    def __init__(self, reason: str) -> None:
        """Give the `reason`."""
        self.reason = reason
        super().__init__(f"not a complete backup: {reason}; nothing was restored")


class NewerBackup(BackupError):
    """A backup was made by a newer mlscope, whose tables this one does not know."""

    def __init__(self, made_by: str) -> None:
        """Give the version that the backup was `made_by`."""
        self.made_by = made_by
        super().__init__(f"the backup was made by mlscope {made_by}; restore it with that version")


class NotEmpty(BackupError):
    """The cluster to restore into has data already."""

    def __init__(self, found: str) -> None:
        """Say what was `found` there."""
        self.found = found
        super().__init__(
            f"the cluster is not empty: it has {found}; restore into an empty data folder "
            "(--data), or move its data aside with --replace"
        )


class RebuildRuns(BackupError):
    """Another `mlscope rebuild` of the same database runs."""

    def __init__(self) -> None:
        """Say that."""
        super().__init__("another `mlscope rebuild` of this database runs; wait until it has ended")
