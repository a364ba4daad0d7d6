"""The door for definitions: YAML with positions in, a definition with its graph or findings out. No I/O but reading the file."""
