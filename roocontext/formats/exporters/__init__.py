"""How sessions are written for other programs, and in the format of our own that loses nothing."""
