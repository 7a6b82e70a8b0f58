"""TensorFlow: SavedModels, Keras models and frozen graphs."""
