"""Traces as files of other tools: Chrome, Perfetto, speedscope, OTLP, Parquet, folded stacks.

Owns: one module a format, each `write(trace, file)`. Knows: the contract's spans. Does not know:
where spans come from, or how files of other tools are read.
"""
