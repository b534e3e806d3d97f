"""Lists of sessions, and what they show of each."""
