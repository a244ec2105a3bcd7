"""The C kernels have the arguments in the table, and get no others."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from nmtkit.kernels import door, library
from nmtkit.kernels.arguments import ARGUMENTS

HERE = Path(library.__file__).parent
SOURCE = re.sub(r"/\*.*?\*/", "", "".join(path.read_text() for path in sorted(HERE.glob("*.h"))), flags=re.DOTALL)


def declared(struct: str) -> list[tuple[str, str, bool]]:
    """Name and type of each member, and whether it is an address: ``const float *a, *b; int64_t n;``."""
    members = []
    for declaration in filter(None, (line.strip() for line in struct.split(";"))):
        kind, names = declaration.removeprefix("const ").split(maxsplit=1)
        members += [(name.strip(" *"), kind, "*" in name) for name in names.split(",")]
    return members


def test_every_kernel_has_the_arguments_in_the_table() -> None:
    structs = dict(re.findall(r"GIVEN\((\w+)\) \{(.*?)\};", SOURCE, flags=re.DOTALL))
    structs |= {"gated_lau": structs["gated_gru"], "gated_lau_back": structs["gated_gru_back"]}  # one body in C
    of_table = {
        name: [(argument, kind.c, bool(kind.dtypes)) for argument, kind in arguments.items()]
        for name, arguments in ARGUMENTS.items()
    }
    assert {name: declared(struct) for name, struct in structs.items()} == of_table


def test_flags_come_last_and_are_named_by_a_tensor() -> None:
    for name, arguments in ARGUMENTS.items():
        flags = list(dict.fromkeys(kind.flag for kind in arguments.values() if kind.flag))
        assert [*arguments][len(arguments) - len(flags) :] == flags, name


def test_every_kernel_in_c_is_tried_before_it_is_used() -> None:
    tried = [name for kernel in door.KERNELS.values() for name in kernel.c]
    assert sorted(tried) == sorted(ARGUMENTS)


def given(**others: Any) -> dict[str, Any]:
    """Arguments of the kernel dequantise, but for ``others``."""
    sums, scales, bias, result = torch.ones(2, 3), torch.ones(2, 1), torch.ones(3), torch.empty(2, 3)
    return {"sums": sums, "scales": scales, "bias": bias, "result": result, "width": 3, **others}


needs_kernels = pytest.mark.skipif(not library.compiled(), reason="C kernels: pip install -e . with a C compiler")


@needs_kernels
def test_arguments_of_the_types_in_the_table_are_accepted() -> None:
    for bias, dtype in ((None, torch.float32), (torch.ones(3), torch.bfloat16)):
        arguments = given(bias=bias, result=torch.empty(2, 3, dtype=dtype))
        library.run("dequantise", 2, 1, **arguments)
        assert (arguments["result"] == (1 if bias is None else 2)).all()


@needs_kernels
@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"sums": torch.ones(2, 3).double()}, "dequantise does not take sums in torch.float64"),
        ({"result": torch.ones(2, 3).half()}, "dequantise does not take result in torch.float16"),
        ({"sums": torch.ones(3, 2).t()}, r"dequantise does not take sums in torch.float32, strides \(1, 2\), cpu"),
        ({"sums": torch.ones(2, 3, device="meta")}, "dequantise does not take sums .* meta"),
        ({"sums": None}, "dequantise does not take None as sums"),
        ({"sums": 3}, "dequantise does not take 3 as sums"),
        ({"width": None}, "dequantise does not take None as width"),
        ({"width": torch.ones(1)}, "dequantise does not take width"),
        (
            {"depth": 3},
            r"takes sums, scales, bias, result, width, low \(flags left out\), not .*, depth",
        ),
    ],
)
def test_other_arguments_are_refused(wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises(TypeError, match=complaint):
        library.run("dequantise", 2, 1, **given(**wrong))


@needs_kernels
def test_tensors_that_one_flag_describes_have_one_dtype() -> None:
    weight = torch.ones(32, 32, dtype=torch.bfloat16)
    with pytest.raises(TypeError, match=r"attend does not take keys in torch.bfloat16"):
        library.run(
            "attend", 1, 1, query=torch.ones(1, 32), keys=weight, values=weight, v=torch.ones(32),
            mask=torch.ones(1, 1, dtype=torch.bool), context=torch.ones(1, 32), weights=torch.ones(1, 1),
            scratch=torch.ones(1, 32), beam=1, sources=1, width=32, depth=32,
        )  # fmt: skip
