"""The language service: what runs the code of `code` nodes."""
