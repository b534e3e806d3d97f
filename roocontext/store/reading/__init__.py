"""Reads of a session: its head, its view, its messages, notes and totals."""
