"""Words: which terms a text is found by, what a query asks for, and where a text answers it.

Pure: the index that holds the terms, and the rows that are searched, belong to the store.
"""
