"""Version 1 of the language service."""
