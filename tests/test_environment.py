"""What nmtkit asks of the libraries below PyTorch: memory that stays."""

import os
import subprocess
import sys

import pytest

NAMES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "DNNL_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")

MANY_SHAPES = """
import resource, torch, nmtkit  # in any order

def multiply(shapes):
    for rows in shapes:
        torch.ones(rows, 512, dtype=torch.bfloat16) @ weight
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB, at most so far

weight = torch.ones(512, 1024, dtype=torch.bfloat16)
early = multiply(range(5, 501, 5))
print((multiply(rows for rows in range(1, 500) if rows % 5) - early) >> 10)
"""


def python(code: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """A Python of its own, whose environment has ``settings`` and else nothing of what is tested here."""
    kept = {name: value for name, value in os.environ.items() if name not in NAMES}
    environment = {**kept, "PYTHONPATH": os.getcwd(), **settings}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)


def test_memory_stays_when_every_batch_has_a_shape_of_its_own() -> None:
    assert int(python(MANY_SHAPES).stdout) < 120  # MiB; 370 where a program is kept for each of 500 shapes


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "7", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"),
        ("DNNL_PRIMITIVE_CACHE_CAPACITY", "7", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"),
        ("LRU_CACHE_CAPACITY", "7", "LRU_CACHE_CAPACITY"),
    ],
)
def test_a_value_that_the_user_set_stays(name: str, value: str, read: str) -> None:
    assert python(f"import os, nmtkit; print(os.environ[{read!r}])", **{name: value}).stdout == f"{value}\n"
