"""Verifying, rebuilding, restoring and copying what is stored."""
