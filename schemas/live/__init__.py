"""Messages that nobody stores: what a run uses of its machine, and questions about clocks."""
