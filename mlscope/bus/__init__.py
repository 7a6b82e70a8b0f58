"""The bus: a small protocol, its NATS implementation and an in-memory twin.

Owns: streams, durables and buckets as data; delivery, redelivery, dead letters; guarded writes.
Knows: no service.
"""
