"""The compiled core. All arrays are contiguous; a wrong shape or type raises ValueError before anything is read."""

def level() -> str:
    """Return the instructions in use: `avx512vnni`, `avx2` or `plain`."""
