"""``python -m nmtkit`` and ``torchrun -m nmtkit`` are the command line."""

from nmtkit.cli.main import main

main()
