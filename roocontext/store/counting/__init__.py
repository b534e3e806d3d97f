"""Counts of tokens, and the snapshot that a manager decides from."""
