"""SQL texts, one concern a module. No Python logic."""
