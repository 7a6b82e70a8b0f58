"""What passes between the host and the worker: messages, batches, names."""
