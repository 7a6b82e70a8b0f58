"""One evaluation: its state as a fold of the log, and the decisions that follow from it."""
