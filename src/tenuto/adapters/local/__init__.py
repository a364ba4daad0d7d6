"""The process's own clock, ids and dice."""
