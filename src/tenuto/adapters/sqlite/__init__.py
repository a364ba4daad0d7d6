"""SQLite as engine of the store: one writer thread, one reader thread."""
