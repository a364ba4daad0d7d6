"""The store, written once for two engines. Not an engine itself."""
