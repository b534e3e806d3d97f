"""multi_llm_chat: its sliding window as the program does it (`sliding-window-upstream`)."""
