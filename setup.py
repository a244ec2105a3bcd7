"""The kernels in C, compiled if there is a C compiler: only speed depends on them. All else is in pyproject.toml."""

from glob import glob

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "nmtkit.kernels._compiled",
            ["nmtkit/kernels/kernels.c"],
            depends=glob("nmtkit/kernels/*.h"),
            extra_compile_args=["-O3", "-fno-math-errno", "-fno-trapping-math"],
            optional=True,
        )
    ]
)
