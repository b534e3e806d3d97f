"""The commands, one module for each family. A command parses, asks `reports`, and draws."""
