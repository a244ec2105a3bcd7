"""A simulated GPU: the device "simulated", whose tensors are as strict as a GPU's and computed by the processor.

    DEVICE=simulated .venv/bin/pytest -m gpu tests/gpu

What can go wrong on a GPU before any kernel runs is found here without one: tensors of two devices in one operation,
branches that only a GPU takes (``is_cuda`` is true), the dtypes of CUDA's autocast, which converts other operations
than the processor's, and reads for which the host waits. It says nothing about speed, memory or CUDA's own kernels.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode

import nmtkit

NAME = "simulated"
PACKAGE = os.path.dirname(nmtkit.__file__) + os.sep
POSSIBLE = hasattr(backend_registration, "_setup_privateuseone_for_python_backend")  # not with PyTorch 2.6
_TENSOR = torch.tensor
# What CUDA's autocast converts to the lower precision, and what to float32 ("CUDA Op-Specific Behavior" in PyTorch's
# documentation of torch.amp), of all that the dispatcher knows under such a name.
LOWER = ["addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "conv1d", "conv2d", "linear", "matmul", "mm", "mv"]
FLOAT32 = [
    "acos", "asin", "cosine_similarity", "cumprod", "cumsum", "dist", "exp", "expm1", "group_norm", "kl_div", "l1_loss",
    "layer_norm", "log", "log10", "log1p", "log2", "log_softmax", "mse_loss", "nll_loss", "norm", "pow", "prod",
    "reciprocal", "renorm", "rsqrt", "softmax", "softplus", "sum", "tan",
]  # fmt: skip
# Their results, or the sizes of these, come to the host, which waits until all that was launched before is done.
WAITS = {"_local_scalar_dense", "nonzero", "masked_select", "unique_dim", "_unique2", "equal", "bincount"}


class Simulated(Tensor):
    """A tensor of the device; ``values`` has its numbers, of views those of the same memory."""

    values: Tensor
    is_cuda: ClassVar[Any] = property(lambda _: True)
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, values: Tensor) -> "Simulated":
        made = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, values.shape, strides=values.stride(), storage_offset=values.storage_offset(), dtype=values.dtype,
            device=torch.device(NAME, 0),
        )  # fmt: skip
        made.values = values
        return made

    # What PyTorch keeps from tensors of other classes.

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def untyped_storage(self) -> torch.UntypedStorage:
        return self.values.untyped_storage()

    def data_ptr(self) -> int:
        return self.values.data_ptr()

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(_TENSOR(index) if isinstance(index, list) else index, value)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Simulated":
        copied: Simulated = memo.setdefault(id(self), Simulated(self.values.clone()))
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.cpu().__reduce_ex__(protocol)

    @classmethod
    def __torch_dispatch__(cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(operation, args, kwargs or {})


class Everywhere(TorchDispatchMode):
    """Operations that make tensors out of nothing are seen by a mode alone."""

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(operation, args, kwargs or {})


waits: list[str] = []  # file and line of nmtkit, for each


def compute(operation: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Compute an operation on the CPU, if all arguments are on one device.

    As on a GPU, numbers without a dimension may come from the processor, and copies go between devices.
    """
    if _is_composite(operation):
        with Everywhere():  # one that is made of others, which come here, too
            return operation.decompose(*args, **kwargs)
    given: list[Tensor] = []

    def inside(value: Any) -> Any:
        if isinstance(value, Tensor):
            given.append(value)
        return value.values if isinstance(value, Simulated) else value

    plain, named = _map(inside, args), _map(inside, kwargs)
    here = any(isinstance(x, Simulated) for x in given)
    name = operation._schema.name.removeprefix("aten::")
    copies = name in ("copy_", "_to_copy", "index_put_")  # whose indices are copied from the CPU
    if here and not copies and any(not isinstance(x, Simulated) and x.dim() for x in given):
        raise RuntimeError(f"{name}: expected all tensors to be on the same device")
    there = torch.device(kwargs["device"]).type == NAME if kwargs.get("device") is not None else here
    if "device" in named:
        named["device"] = "cpu"
    booleans = name.startswith("index") and any(x.dtype == torch.bool for x in given[1:])
    moves = copies and len({isinstance(x, Simulated) for x in given} | {there}) > 1
    if (here and (name in WAITS or booleans)) or (moves and not _alone(args, kwargs)):
        waits.append(_place())
    known = {id(x.values): x for x in given if isinstance(x, Simulated)}

    def outside(value: Any) -> Any:
        if not isinstance(value, Tensor) or not there:
            return value
        with torch.inference_mode(False):  # where that is on, views of tensors from outside it are no inference tensors
            return known[id(value)] if id(value) in known else Simulated(value)

    return _map(outside, operation(*plain, **named))


def _alone(args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether a copy is asynchronous, as one to the device may be."""
    arrives = not isinstance(args[-1], Simulated)
    return arrives and bool(kwargs.get("non_blocking"))


def _place() -> str:
    """The line of nmtkit that is being run."""
    frame: Any = sys._getframe()
    while frame is not None and not frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return "elsewhere" if frame is None else f"{frame.f_code.co_filename.removeprefix(PACKAGE)}:{frame.f_lineno}"


@cache
def _is_composite(operation: Any) -> bool:
    """Whether an operation is made of others."""
    return bool(operation.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd))


def _map(function: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with ``function`` applied to its leaves; with PyTorch's ``tree_map``, tests take half as long again."""
    if isinstance(tree, list | tuple):
        return type(tree)([_map(function, each) for each in tree])
    if isinstance(tree, dict):
        return {name: _map(function, each) for name, each in tree.items()}
    return function(tree)


@contextmanager
def counted_waits() -> Iterator[list[str]]:
    """The lines of nmtkit at which the host waits for the device within the block."""
    del waits[:]
    yield waits


def _casting(overload: Any, dtype: torch.dtype | None) -> Callable[..., Any]:
    """An operation that converts like autocast: to ``dtype``, or to the current one."""

    def call(*args: Any, **kwargs: Any) -> Any:
        wanted = dtype or torch.get_autocast_dtype(NAME)

        def cast(value: Any) -> Any:
            eligible = isinstance(value, Tensor) and value.is_floating_point() and value.dtype != torch.float64
            return value.to(wanted) if eligible else value

        keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)
        args, kwargs = _map(cast, args), _map(cast, kwargs)
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return overload(*args, **kwargs)

    return call


def begin() -> list[torch.library.Library]:
    """Make the device known to PyTorch, for as long as the process lives and what is given back is kept.

    Where it is not ``POSSIBLE`` there is nothing but its name.
    """
    if not POSSIBLE:
        torch.utils.rename_privateuse1_backend(NAME)
        return []
    backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=_module())
    others = torch.library.Library("_", "IMPL")
    others.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    library = torch.library.Library("aten", "IMPL")
    for names, dtype in ((LOWER, None), (FLOAT32, torch.float32)):
        for name in names:
            packet = getattr(torch.ops.aten, name)
            for overload in packet.overloads():
                schema = getattr(packet, overload)._schema
                if "out" not in overload and not schema.is_mutable:
                    full = f"{name}.{overload}" if overload != "default" else name
                    library.impl(full, _casting(getattr(packet, overload), dtype), "AutocastPrivateUse1")
    torch.tensor = _tensor  # type: ignore[assignment]
    Everywhere().__enter__()
    return [library, others]


def _tensor(*args: Any, device: torch.device | str | None = None, **kwargs: Any) -> Tensor:
    """As torch.tensor, which in inference mode has no way to devices of other classes."""
    return _TENSOR(*args, **kwargs).to(device or "cpu")


def _module() -> ModuleType:
    module = ModuleType(NAME)
    module.get_amp_supported_dtype = lambda: [torch.bfloat16]  # type: ignore[attr-defined]
    module.is_available = lambda: True  # type: ignore[attr-defined]
    module.device_count = lambda: 1  # type: ignore[attr-defined]
    module.current_device = lambda: 0  # type: ignore[attr-defined]
    module._is_in_bad_fork = lambda: False  # type: ignore[attr-defined]
    module.manual_seed_all = lambda seed: None  # type: ignore[attr-defined]
    return module
