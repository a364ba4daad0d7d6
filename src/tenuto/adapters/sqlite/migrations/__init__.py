"""Numbered SQL files, applied in order by `opening.migrate`. Never edited once released."""
