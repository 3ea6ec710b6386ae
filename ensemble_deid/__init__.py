"""Find and remove protected health information (PHI) in clinical notes with a stack of learners."""

__version__ = "0.1.0"
