"""What an evaluation's page shows of its results: headline figures, a picture, runs, caveats."""
