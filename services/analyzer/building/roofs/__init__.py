"""A device's roof, and where rows stand to it."""
