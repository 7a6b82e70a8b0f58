"""CUDA calls and device work, as torch.profiler (Kineto) records them."""
