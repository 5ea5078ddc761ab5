"""What `torch.cuda` answers: to the script what a GPU would, to the libraries that there is none.

A script that stops without a GPU goes on, and one that chooses bf16 where the GPU has it chooses it; a library that
believed in a GPU would move tensors to it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from ...observing.callers import asked_by_script

NAME = "NVIDIA A100-SXM4-80GB"
MEMORY = 80 * 2**30  # bytes
NUMBERS = (
    *("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "memory_cached"),
    *("max_memory_cached", "utilization", "temperature", "power_draw", "clock_rate", "initial_seed", "current_device"),
)
SILENT = (
    *(
        "set_device",
        "synchronize",
        "empty_cache",
        "ipc_collect",
        "init",
        "set_per_process_memory_fraction",
        "set_stream",
    ),
    *("reset_peak_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached", "set_sync_debug_mode"),
    *("reset_accumulated_memory_stats", "set_rng_state", "set_rng_state_all", "cudart", "seed", "seed_all"),
)


class Event:
    """torch.cuda.Event by the clock: milliseconds between two records."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.at = time.perf_counter()

    def record(self, *args: Any) -> None:
        self.at = time.perf_counter()

    def elapsed_time(self, other: Event) -> float:
        return 1000.0 * (other.at - self.at)

    def synchronize(self) -> None: ...

    def wait(self, *args: Any) -> None: ...

    def query(self) -> bool:
        return True


class Stream:
    """torch.cuda.Stream: what is put in it has happened."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def synchronize(self) -> None: ...

    def wait_stream(self, stream: Any) -> None: ...

    def wait_event(self, event: Any) -> None: ...

    def record_event(self, event: Any = None) -> Event:
        return event or Event()

    def query(self) -> bool:
        return True

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None: ...


def processes() -> int:
    """How many GPUs the script sees: one a process."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def patch_answers(note: Callable[[str], None], capability: tuple[int, int]) -> None:
    """`torch.cuda.*` answers as on a machine with a GPU a process, as far as the script itself asks.

    `capability`: the GPU's compute capability, (major, minor); the rest is an A100's.
    """
    import torch

    cuda = torch.cuda
    told = functools.partial(note, "the script asked for a GPU: `cuda` was the CPU, in one process a GPU")
    for name, on_gpu in {
        "is_available": lambda: True,
        "device_count": processes,
        "is_bf16_supported": lambda: True,
    }.items():
        setattr(cuda, name, _by_caller(getattr(cuda, name), on_gpu, told))
    for name in NUMBERS:
        setattr(cuda, name, lambda *args, **kwargs: 0)
    for name in SILENT:
        setattr(cuda, name, lambda *args, **kwargs: None)
    cuda.get_device_name = lambda *args, **kwargs: NAME
    cuda.get_device_capability = lambda *args, **kwargs: capability
    cuda.get_device_properties = functools.partial(properties, capability)
    cuda.mem_get_info = lambda *args, **kwargs: (MEMORY, MEMORY)
    cuda.memory_summary = lambda *args, **kwargs: ""
    cuda.memory_stats = lambda *args, **kwargs: {}
    cuda.memory_snapshot = lambda *args, **kwargs: []
    cuda.get_rng_state = lambda *args, **kwargs: torch.get_rng_state()
    cuda.get_rng_state_all = lambda *args, **kwargs: []
    cuda.can_device_access_peer = lambda *args, **kwargs: True
    cuda.get_arch_list = lambda *args, **kwargs: ["sm_80"]
    cuda.Event, cuda.Stream = Event, Stream
    cuda.current_stream = cuda.default_stream = lambda *args, **kwargs: Stream()
    cuda.stream = lambda stream=None: contextlib.nullcontext(stream)
    cuda.device = cuda.device_of = lambda *args, **kwargs: contextlib.nullcontext()
    for name in ("range_push", "range_pop", "mark"):
        setattr(cuda.nvtx, name, lambda *args, **kwargs: 0)
    _patch_kernels(torch)


def patch_apple(told: Callable[[], None], cuda_too: bool) -> None:
    """`torch.backends.mps` is there for a script that knows no `cuda`; `torch.mps` has nothing to do.

    One that knows both has the GPU that it prefers already.
    """
    import torch

    for name in ("is_available", "is_built"):
        original = getattr(torch.backends.mps, name)
        if not cuda_too:
            setattr(torch.backends.mps, name, _by_caller(original, lambda: True, told))
    for name in ("synchronize", "empty_cache", "set_per_process_memory_fraction", "seed", "set_rng_state"):
        setattr(torch.mps, name, lambda *args, **kwargs: None)
    for name in ("current_allocated_memory", "driver_allocated_memory", "recommended_max_memory"):
        setattr(torch.mps, name, lambda *args, **kwargs: 0)
    torch.mps.manual_seed = torch.mps.seed
    torch.mps.get_rng_state = lambda *args, **kwargs: torch.get_rng_state()


def properties(capability: tuple[int, int], *args: Any, **kwargs: Any) -> SimpleNamespace:
    """torch.cuda.get_device_properties of an A100 but for its capability."""
    return SimpleNamespace(
        name=NAME,
        major=capability[0],
        minor=capability[1],
        total_memory=MEMORY,
        multi_processor_count=108,
        is_integrated=0,
    )


def _by_caller(original: Callable[..., Any], on_gpu: Callable[[], Any], told: Callable[[], None]) -> Callable[..., Any]:
    @functools.wraps(original)
    def answer(*args: Any, **kwargs: Any) -> Any:
        if not asked_by_script():
            return original(*args, **kwargs)
        told()
        return on_gpu()

    return answer


def _patch_kernels(torch: Any) -> None:
    """A choice among attention kernels is none here: on the CPU each computes the same, or is missing."""

    @contextlib.contextmanager
    def any_kernel(*args: Any, **kwargs: Any) -> Iterator[None]:
        yield

    torch.backends.cuda.sdp_kernel = any_kernel
    with contextlib.suppress(ImportError):
        import torch.nn.attention as attention  # torch 2.3

        attention.sdpa_kernel = any_kernel
