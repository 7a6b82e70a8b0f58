"""How a GPU is fed, in one table: the model, the preparation of its samples, and peers."""
