"""The readers, one layout on disk a file."""
