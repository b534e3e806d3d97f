"""Gemini CLI: as its documents say (`gemini`) and as the program does (`gemini-upstream`)."""
