"""Traces that other tools wrote, as recordings: spans with levels, kinds and queries.

Owns: what the files of torch.profiler, ONNX Runtime, Nsight Compute and Nsight Systems say in our
words, and the bundle that carries it. Knows: the contract. Does not know: how a bundle is imported.
"""
