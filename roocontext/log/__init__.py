"""The vocabulary and the definition of everything else. Pure: no I/O, no clock, no randomness."""
