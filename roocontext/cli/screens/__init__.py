"""Draws answers on a terminal, in its width, with all text made safe to print."""
