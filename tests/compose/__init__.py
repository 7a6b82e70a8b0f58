"""The compose cluster in a real engine, on stand-ins for base images that cannot be pulled."""
