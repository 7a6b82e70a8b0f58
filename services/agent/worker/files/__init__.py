"""Files that a session reads: datasets, samples, weights."""
