"""The version of nmtkit, below every other module: prep starts over where another version was at work."""

__version__ = "0.2.0"
