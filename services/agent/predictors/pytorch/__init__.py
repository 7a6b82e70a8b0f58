"""PyTorch: eager, compiled, scripted and exported models."""
