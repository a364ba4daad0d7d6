"""The vocabulary: immutable values without behaviour beyond themselves. No I/O, clock, or third-party import."""
