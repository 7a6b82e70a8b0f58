"""The status of a query of a remote load, apart from its messages, which take long to import."""

ANSWERED, FAILED, LOST = 0, 1, 2
