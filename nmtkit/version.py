"""The version of nmtkit, in a module without imports; prep restarts from scratch after a version change."""

__version__ = "0.2.0"
