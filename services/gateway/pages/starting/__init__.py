"""Pages that start something: the form of evaluations, and the trial of models. Pure."""
