"""The door for definitions: text in, an indexed graph or findings with positions out. No I/O."""
