"""The workers' service: how tasks reach workers of other processes."""
