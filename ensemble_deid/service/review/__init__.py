"""Where people correct what a model found: a store of their decisions, and a page in the browser."""
