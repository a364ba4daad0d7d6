"""Interpreters for `code` nodes, in processes of their own. Imports nothing of the engine."""
