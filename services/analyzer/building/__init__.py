"""What several analyses are built from: tables, charts, intervals, sums."""
