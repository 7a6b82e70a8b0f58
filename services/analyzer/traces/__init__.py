"""Traces on a screen: a run's spans by lane and depth, windows of them, one span with its kin.

Owns: the order of a run's spans, tiles of them as Arrow, details of one, a bounded cache. All of it
is pure. Knows: lanes, depths and tiles (`mlscope.tracing`), the span tree (`correlation`). Does not
know: tables, the bus, the database.
"""
