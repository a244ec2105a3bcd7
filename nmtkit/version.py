"""The version of nmtkit, at the bottom of the house: what prep has made is made again by another one."""

__version__ = "0.1.0"
