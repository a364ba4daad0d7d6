"""Version 1 of the workers' service."""
