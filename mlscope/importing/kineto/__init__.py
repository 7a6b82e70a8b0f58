"""torch.profiler (Kineto): its trace as a recording."""
