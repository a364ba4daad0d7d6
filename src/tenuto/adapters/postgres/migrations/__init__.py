"""The schema, step by step: numbered, forward only, never edited."""
