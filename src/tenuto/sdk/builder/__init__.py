"""Definitions written in Python: nodes and edges as objects, which become the same tree that YAML gives."""
