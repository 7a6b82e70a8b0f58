"""Traces that other tools wrote, read as recordings: spans with levels, kinds and queries.

Owns: readers of files by torch.profiler, ONNX Runtime, Nsight Compute, Nsight Systems and Chrome,
and the facts that a bundle of such a recording holds. Knows: the contract. Does not know: how a
bundle is imported.
"""
