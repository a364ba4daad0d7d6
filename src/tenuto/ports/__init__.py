"""What the application needs from the world, as Protocols and the values that cross them. No implementation."""
