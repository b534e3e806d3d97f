"""The sliding window of multi_llm_chat as the program behaves (`sliding-window-upstream`)."""
