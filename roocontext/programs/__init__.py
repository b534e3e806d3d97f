"""Real programs, a folder each: policy, counting, prompts, events. Pure.

Roo Code, Gemini CLI, OpenCode and multi_llm_chat are reproduced from recordings of the programs
themselves. Their policies and counters are entry points of this distribution, like any plugin's.
"""
