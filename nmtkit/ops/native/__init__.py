"""The steps of three cells by kernels. They import the state of their cell from ``ops/``, so they are not in
``kernels/`` yet."""
