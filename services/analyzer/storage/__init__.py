"""Access to the analyzer's rows in the database: named statements, and the frames of a run."""
