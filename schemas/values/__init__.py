"""Types of the values that messages hold: ids, numbers and free-form JSON."""
