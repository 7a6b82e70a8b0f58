"""The bus: a small protocol (`bus.Bus`) and its implementation over NATS.

Owns: streams, durables, buckets and permissions as data; delivery, redelivery, dead letters;
guarded writes. Knows: no service. `mlscope.testing.memory_bus` implements the same protocol in
memory, and both pass the same contract tests.
"""
