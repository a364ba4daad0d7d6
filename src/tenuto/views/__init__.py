"""What people and clients read of runs: reports, timelines, documents. Reads through ports only."""
