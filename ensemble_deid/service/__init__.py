"""The HTTP service: Presidio's REST API and our own, over one model (docs/administrator.md)."""
