"""The pure state machine: facts in, orders out. No I/O, clock, chance, log or third-party import."""
