"""Spans as they are recorded and shipped: clocks, buffers, batches.

Owns: stamps in nanoseconds of CLOCK_MONOTONIC, rows of spans, their columns on the wire.
Knows: the contract. Does not know: what is measured, and who publishes.
"""
