"""Process groups of GPUs on the CPU: gloo for nccl, one process where no launcher started more, wrappers that wrap."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

# What a script asks of a module that fully_shard has wrapped: when its shards are gathered and reduced.
OF_SHARDED = (
    *("unshard", "reshard", "set_requires_gradient_sync", "set_requires_all_reduce", "set_reshard_after_backward"),
    *("set_is_last_backward", "set_modules_to_forward_prefetch", "set_modules_to_backward_prefetch"),
    *("set_reduce_scatter_divide_factor", "set_gradient_divide_factor", "set_unshard_in_backward"),
)


def patch_process_groups(note: Callable[[str], None]) -> None:
    """`torch.distributed` of a script made for GPUs works on this machine.

    One process of FSDP is its module: nothing is sharded. Several (torch's launcher) keep DDP, over gloo.
    """
    import torch

    distributed = torch.distributed
    if not distributed.is_available():
        return
    start, group, barrier = distributed.init_process_group, distributed.new_group, distributed.barrier

    @functools.wraps(start)
    def init_process_group(backend: Any = None, *args: Any, **kwargs: Any) -> None:
        kwargs.pop("device_id", None)
        if "RANK" in os.environ:
            start(_gloo(backend), *args, **kwargs)
            return
        note("a process group of one process, over gloo")
        start("gloo", store=distributed.HashStore(), rank=0, world_size=1)

    @functools.wraps(group)
    def new_group(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("device_id", None)
        return group(*args, **kwargs | ({"backend": _gloo(kwargs["backend"])} if kwargs.get("backend") else {}))

    @functools.wraps(barrier)
    def wait(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("device_ids", None)
        return barrier(*args, **kwargs)

    distributed.init_process_group = distributed.distributed_c10d.init_process_group = init_process_group
    distributed.new_group, distributed.barrier = new_group, wait
    _patch_wrappers(torch, note)
    _patch_meshes()


def _gloo(backend: Any) -> str:
    return "gloo" if backend is None or "nccl" in str(backend) else str(backend)


def _patch_wrappers(torch: Any, note: Callable[[str], None]) -> None:
    parallel = torch.nn.parallel.DistributedDataParallel
    init = parallel.__init__

    @functools.wraps(init)
    def wrap(self: Any, module: Any, *args: Any, **kwargs: Any) -> None:
        kwargs.pop("device_ids", None)
        kwargs.pop("output_device", None)
        init(self, module, **kwargs)

    parallel.__init__ = wrap
    try:
        import torch.distributed.fsdp as fsdp
    except ImportError:
        return
    whole = whole_module(torch, note)
    fsdp.FullyShardedDataParallel = whole
    fsdp.fully_sharded_data_parallel.FullyShardedDataParallel = whole
    sharded = getattr(fsdp, "fully_shard", None)  # torch 2.6; before in torch.distributed._composable.fsdp
    if sharded is None:
        return

    @functools.wraps(sharded)
    def fully_shard(module: Any, *args: Any, **kwargs: Any) -> Any:
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            return sharded(module, *args, **kwargs)
        note("one process: fully_shard left the module whole")
        for name in OF_SHARDED:
            object.__setattr__(module, name, lambda *args, **kwargs: None)
        return module

    fsdp.fully_shard = fully_shard


def whole_module(torch: Any, note: Callable[[str], None]) -> Any:
    """FullyShardedDataParallel's class for one process: it wraps a module and shards nothing.

    torch's own refuses a machine without an accelerator.
    """

    class WholeModule(torch.nn.Module):
        def __init__(self, module: Any, *args: Any, **kwargs: Any) -> None:
            super().__init__()
            note("one process: FullyShardedDataParallel left the module whole")
            self._fsdp_wrapped_module = module

        @property
        def module(self) -> Any:
            return self._fsdp_wrapped_module

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return self._fsdp_wrapped_module(*args, **kwargs)

        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(super().__getattr__("_fsdp_wrapped_module"), name)

        def state_dict(self, *args: Any, **kwargs: Any) -> Any:
            return self._fsdp_wrapped_module.state_dict(*args, **kwargs)

        def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
            return self._fsdp_wrapped_module.load_state_dict(*args, **kwargs)

        def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Any:
            return torch.nn.utils.clip_grad_norm_(self.parameters(), max_norm, norm_type)

        @contextlib.contextmanager
        def no_sync(self) -> Iterator[None]:
            yield

        @staticmethod
        @contextlib.contextmanager
        def state_dict_type(*args: Any, **kwargs: Any) -> Iterator[None]:
            yield

        summon_full_params = state_dict_type

        @staticmethod
        def set_state_dict_type(*args: Any, **kwargs: Any) -> None: ...

        @staticmethod
        def full_optim_state_dict(model: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            return optimizer.state_dict()

        optim_state_dict = full_optim_state_dict

        @staticmethod
        def optim_state_dict_to_load(model: Any, optimizer: Any, state: Any, *args: Any, **kwargs: Any) -> Any:
            return state

    return WholeModule


def _patch_meshes() -> None:
    try:
        import torch.distributed.device_mesh as meshes  # torch 2.2
    except ImportError:
        return
    make = meshes.init_device_mesh

    @functools.wraps(make)
    def init_device_mesh(device_type: str, *args: Any, **kwargs: Any) -> Any:
        return make("cpu" if device_type == "cuda" else device_type, *args, **kwargs)

    meshes.init_device_mesh = init_device_mesh
