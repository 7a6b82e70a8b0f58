"""Cold starts: runs that open the model, and the weights that they load."""
