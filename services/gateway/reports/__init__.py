"""Reports: one evaluation as a document of its own, and as an archive with its tables.

Used by the gateway's pages, by REST and by the command line.
"""
