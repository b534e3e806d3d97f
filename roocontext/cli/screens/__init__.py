"""What a person sees: answers drawn on a terminal, harmless, as wide as it is."""
