"""Gemini CLI as documented (`gemini`) and as the program behaves (`gemini-upstream`)."""
