"""The scaffold of a format: all that belongs to an encoding or a method, as stubs that fail until they are written."""
