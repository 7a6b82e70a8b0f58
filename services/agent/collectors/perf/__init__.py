"""Counters of the operating system and the processor, by perf_event_open(2)."""
