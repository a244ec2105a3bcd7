"""``python -m nmtkit`` is the command line."""

from nmtkit.cli.main import main

main()
