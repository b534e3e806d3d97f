"""What a session holds: its head, its view, its messages, notes and totals."""
