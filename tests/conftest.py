"""Eight simulated CPU devices, no network, exact matrix products: set before anything imports JAX."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# XLA ends a process whose devices wait 40 s for each other, which eight devices on two busy cores may have to. The
# programs of tiny models take longer to optimize than to run, and a third longer yet with the emitters of fusions.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_force_host_platform_device_count=8 --xla_cpu_collective_call_terminate_timeout_seconds=600 "
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true --xla_cpu_use_fusion_emitters=false",
)
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_DEFAULT_MATMUL_PRECISION", "highest")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Threads that wait for each other after every product of tiny matrices only spin.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest

from porter.validate.preloading import client

# What JAX, tensorboardX and the command set in the process that imports them: the interpreters that scripts are forked
# from are the same before and after.
client.OF_A_RUN |= {
    *("TPU_PORT_ALONE", "CRC32C_SW_MODE", "GRPC_VERBOSITY", "LIBTPU_INIT_ARGS", "TF_CPP_MIN_LOG_LEVEL"),
    *("TPU_LIBRARY_PATH", "TPU_SKIP_MDS_QUERY", "TPU_ML_PLATFORM", "TPU_ML_PLATFORM_VERSION"),
    *("ENABLE_RUNTIME_UPTIME_TELEMETRY", "TENSORSTORE_CURL_LOW_SPEED_TIME_SECONDS"),
    *("TENSORSTORE_CURL_LOW_SPEED_LIMIT_BYTES", "FSDP_CPU_RAM_EFFICIENT_LOADING"),
}

# Syntax trees and traced programs are many objects that stay: looking through them again and again took a tenth of the
# suite.
gc.set_threshold(50_000, 20, 10)

_COMPILED = pytest.StashKey[str]()
_STATE = pytest.StashKey[str]()
_CACHE = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """One cache of compiled programs for all of the suite's processes: they train few different tiny models. What a
    test trusts is forgotten with it."""
    config.stash[_STATE] = os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="tpu-port-state-")
    config.stash[_CACHE] = os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="tpu-port-cache-")
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        config.stash[_COMPILED] = os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="tpu-port-tests-")
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")


def pytest_collection_finish(session: pytest.Session) -> None:
    """What is imported by now stays to the end."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure(config: pytest.Config) -> None:
    for key in (_COMPILED, _STATE, _CACHE):
        shutil.rmtree(config.stash.get(key, ""), ignore_errors=True)


@pytest.fixture(autouse=True)
def one_run_a_process() -> Iterator[None]:
    """The runtime notes which model the folder of checkpoints is for, in a process that trains once: a later test's
    model was noted in the folder of an earlier one."""
    yield
    sidecar = sys.modules.get("porter.runtime.facts.sidecar")
    if sidecar is not None:
        vars(sidecar).update(_model=None, _used=False, _folder=None, _written=None)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`tiny("gemma3")`: a folder with that tiny model and its tokenizer, made once a session (see tests/tiny.py)."""
    from tests import tiny as models

    made: dict[str, Path] = {}

    def folder(name: str, **settings: Any) -> Path:
        key = name + "".join(f"-{k}={v}" for k, v in sorted(settings.items()))
        if key not in made:
            made[key] = models.save(name, tmp_path_factory.mktemp(name), **settings)
        return made[key]

    return folder


@pytest.fixture(scope="session")
def tiny_mesh() -> Callable[[int, int], Any]:
    """`tiny_mesh(2, 4)`: a (fsdp, tp) mesh of the first fsdp * tp devices, with Auto axes as Tunix wants them."""

    def mesh(fsdp: int, tp: int) -> Any:
        import jax

        auto = (jax.sharding.AxisType.Auto,) * 2
        return jax.make_mesh((fsdp, tp), ("fsdp", "tp"), axis_types=auto, devices=jax.devices()[: fsdp * tp])

    return mesh
