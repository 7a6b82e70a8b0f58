"""What services share and users import: the client, the bus, loads, tracing, statistics, settings.

Owns: ways of talking, pacing and counting. Knows: no service.
"""
