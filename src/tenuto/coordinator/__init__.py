"""The application: load, decide, commit; and the loops that keep runs moving. Knows ports, never adapters."""
