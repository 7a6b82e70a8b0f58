"""What this machine is: hardware, limits, noise, and the roofs of its devices."""
