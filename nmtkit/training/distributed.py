"""Data-parallel training with torchrun: each process computes the gradient of its share of every batch.

Every process has the whole model and makes every update. Gradients, losses and requests to stop are combined over all
processes before use, so that all processes make the same decisions; only the first one writes files. Without torchrun
there is one process, and these functions have no effect.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from nmtkit.errors import UserError
from nmtkit.machine.processes import available_cores

PATIENCE = timedelta(minutes=30)  # timeout of an all-reduce; another process may be writing a checkpoint


@contextmanager
def processes(device: torch.device) -> Iterator[torch.device]:
    """Join the processes started by torchrun; yields the device of this one.

    That is the GPU of its local rank, or its share of the CPU's cores. Errors name the process.
    """
    if os.environ.get("WORLD_SIZE", "1") == "1":
        yield device
        return
    rank, count, local, here = map(_number, ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    if device.type == "cuda":
        # nccl refuses two processes on one GPU with an unhelpful message.
        if here > torch.cuda.device_count():
            raise UserError(f"{here} processes on a machine with {torch.cuda.device_count()} GPUs; start one for each")
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
    elif os.environ.get("OMP_NUM_THREADS", "1") == "1":  # torchrun's default
        torch.set_num_threads(max(1, available_cores() // here))
    # PyTorch's optimizers import this module, whose functions keep the current group as their default. If it were
    # imported later, the group's threads would outlive the group and sometimes abort a finished process.
    from torch.distributed.nn import functional  # noqa: F401

    try:
        dist.init_process_group(timeout=PATIENCE)  # gloo for CPU tensors, nccl for GPU tensors
    except (ValueError, RuntimeError) as error:
        raise UserError(f"process {rank} of {count} cannot reach the others: {str(error).splitlines()[0]}") from None
    try:
        yield device
    except UserError as error:
        raise UserError(f"process {rank} of {count}: {error}") from None
    # PyTorch 2.6 deadlocks if the group's destructor frees the backend: it holds the GIL, which gloo's threads need.
    backend = dist.distributed_c10d._get_default_group()._get_backend(device)
    dist.destroy_process_group()
    del backend


def _number(name: str) -> int:
    """The value of torchrun's environment variable ``name``. Raises UserError if only some of them are set."""
    value = os.environ.get(name, "")
    if not value.isdecimal():
        raise UserError(f"{name} is {value!r}, not a number; start processes with torchrun, or unset WORLD_SIZE")
    return int(value)


def rank() -> int:
    """The number of this process, from 0."""
    return dist.get_rank() if dist.is_initialized() else 0


def size() -> int:
    """The number of processes."""
    return dist.get_world_size() if dist.is_initialized() else 1


def share(rows: np.ndarray) -> np.ndarray:
    """This process's share of items sorted by length: every n-th, so that all shares take equally long."""
    return rows[rank() :: size()]


def total(*numbers: float) -> list[float]:
    """Each number summed over all processes."""
    # In float64, which is exact for counts.
    sums = torch.tensor(numbers, dtype=torch.float64)
    _combine(sums, dist.ReduceOp.SUM)
    return sums.tolist()


def highest(number: int) -> int:
    """The maximum over all processes."""
    found = torch.tensor(int(number))
    _combine(found, dist.ReduceOp.MAX)
    return int(found)


def sum_gradients(model: nn.Module) -> None:
    """Replace each gradient by its sum over all processes."""
    if size() == 1:
        return
    parameters = list(model.parameters())
    # One all-reduce is faster than one for each parameter. A parameter that a share does not use has zero gradient.
    flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in parameters])
    _combine(flat, dist.ReduceOp.SUM)
    for parameter, gradient in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
        if parameter.grad is None:
            parameter.grad = gradient.view_as(parameter)
        else:  # at the same address, which a CUDA graph may use
            parameter.grad.copy_(gradient.view_as(parameter))


def copy_first(model: nn.Module) -> None:
    """Copy the weights of the first process to all, because random numbers may differ between types of machines."""
    if size() > 1:
        for parameter in model.parameters():
            with _together():
                dist.broadcast(parameter.detach(), 0)


def gather(shared: Sequence[Sequence[int]]) -> list[list[int]]:
    """The sentences that the processes computed for their ``share``, in the original order."""
    count, longest = int(total(len(shared))[0]), highest(max(map(len, shared), default=0))
    table = torch.zeros(count, longest + 1, dtype=torch.int64)  # rows: length, then words; 0 for other processes' rows
    for row, words in zip(table[rank() :: size()], shared, strict=True):
        row[: len(words) + 1] = torch.tensor([len(words), *words])
    _combine(table, dist.ReduceOp.SUM)
    return [row[1 : row[0] + 1] for row in table.tolist()]


def _combine(tensor: Tensor, operation: dist.ReduceOp.RedOpType) -> None:
    """Combine a tensor of any shape over all processes, in place."""
    if size() > 1:
        with _together():
            dist.all_reduce(tensor, operation)


@contextmanager
def _together() -> Iterator[None]:
    """Turn a communication error into a UserError: another process has failed and reports why."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"another process has failed or hangs; its own message says why ({reason})") from None
