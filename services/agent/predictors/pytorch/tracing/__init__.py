"""How the layers of PyTorch models are found and timed."""
