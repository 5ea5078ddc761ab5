"""Slices by name."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from porter.errors import InputError
from porter.tpu.compile import environment
from porter.tpu.plan import fitting_meshes
from porter.tpu.slices import GIB, mesh_of, meshes_of, names, slice_named
from tests.tpu.test_plan import gemma4


def test_the_number_counts_cores_or_chips() -> None:
    assert [slice_named(name).chips for name in ("v4-8", "v5p-8", "v5litepod-8", "v6e-8", "tpu7x-8")] == [4, 4, 8, 8, 4]
    assert [slice_named(name).hosts for name in ("v5p-8", "v5p-16", "v6e-8", "v6e-16")] == [1, 2, 1, 4]
    assert slice_named("v5e-8") == slice_named("v5litepod-8")


@pytest.mark.parametrize("name", names())
def test_a_topology_multiplies_to_the_chips(name: str) -> None:
    found = slice_named(name)
    product = 1
    for length in found.topology.split("x"):
        product *= int(length)
    assert product == found.chips
    assert found.devices == found.chips * found.chip.devices


def test_a_price_is_never_bare() -> None:
    for name in names():
        for price in slice_named(name).chip.prices:
            assert price.usd > 0 and all((price.kind, price.region, price.date, price.source))


def test_ironwood_shows_two_devices_a_chip_that_share_its_memory() -> None:
    found = slice_named("tpu7x-8")
    assert (found.devices, found.hbm) == (8, 96 * GIB)


@pytest.mark.parametrize(("chip", "alpha"), [("v5p-8", 2550), ("v6e-8", 5100), ("v5e-8", 2190)])
def test_alpha_is_the_scaling_books(chip: str, alpha: int) -> None:
    assert slice_named(chip).chip.alpha == pytest.approx(alpha, rel=0.002)


@pytest.mark.parametrize(
    ("name", "near"), [("v5p-9", "v5p-8"), ("v5q-8", "v5p-8"), ("v6e-7", "v6e-8"), ("H100", "nearest"), ("", "nearest")]
)
def test_an_unknown_slice_gets_the_nearest_names(name: str, near: str) -> None:
    with pytest.raises(InputError, match=near):
        slice_named(name)


def test_a_mesh_has_the_slices_devices() -> None:
    where = slice_named("v5p-8")
    assert mesh_of("tp=2, fsdp=2", where) == {"fsdp": 2, "tp": 2}
    assert mesh_of("fsdp=4", where) == {"fsdp": 4, "tp": 1}
    with pytest.raises(InputError, match="8 devices, v5p-8 has 4 chips; use one of fsdp=4,tp=1"):
        mesh_of("fsdp=4,tp=2", where)
    for wrong in ("4x1", "fsdp=0,tp=4", "dp=4", "fsdp=2,fsdp=2"):
        with pytest.raises(InputError, match="fsdp=4,tp=1"):
            mesh_of(wrong, where)


# VMs as docs.cloud.google.com lists them ("VMs" of v6e, "hosts" of v5p), and XPK's table has them for GKE.
PUBLISHED = {
    "v4-8": 1, "v4-16": 2, "v4-32": 4, "v5litepod-1": 1, "v5litepod-4": 1, "v5litepod-8": 1, "v5litepod-16": 4,
    "v5litepod-32": 8, "v5litepod-64": 16, "v5litepod-128": 32, "v5litepod-256": 64, "v5p-8": 1, "v5p-16": 2,
    "v5p-32": 4, "v6e-1": 1, "v6e-4": 1, "v6e-8": 1, "v6e-16": 4, "v6e-32": 8, "v6e-64": 16, "v6e-128": 32,
    "v6e-256": 64, "tpu7x-8": 1, "tpu7x-16": 2,
}  # fmt: skip


def test_a_slice_has_the_vms_that_are_published() -> None:
    assert {name: slice_named(name).hosts for name in PUBLISHED} == PUBLISHED


def test_a_mesh_that_no_axis_of_the_slice_gives_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"can't lay fsdp=8,tp=2 out on v6e-16.*use one of fsdp=16,tp=1, fsdp=4,tp=4,"):
        mesh_of("fsdp=8,tp=2", slice_named("v6e-16"))
    assert mesh_of("fsdp=8,tp=2", slice_named("v5e-16")) == {"fsdp": 8, "tp": 2}


def test_every_mesh_of_every_slice_is_planned_or_dropped_by_name() -> None:
    for where in map(slice_named, names()):
        count = where.devices
        every = {f"fsdp={count // tp},tp={tp}" for tp in range(1, count + 1) if count % tp == 0}
        fit, dropped = fitting_meshes(gemma4(), where)
        planned = {f"fsdp={fsdp},tp={tp}" for fsdp, tp in fit}
        assert planned | {mesh for mesh, _ in dropped} == every and not planned & {mesh for mesh, _ in dropped}
        for mesh, why in dropped:
            assert where.name in why or "does not divide" in why, (mesh, why)


LAYOUTS = """
import json, sys, tempfile
from pathlib import Path
import jax
from jax.sharding import NamedSharding, PartitionSpec
from porter.tpu.tracing.abstract_run import AbstractRun, Finished

make, found = jax.make_mesh, {}


def array(mesh, *axes):
    size = 8 * mesh.size
    return jax.ShapeDtypeStruct((size, size), jax.numpy.bfloat16, sharding=NamedSharding(mesh, PartitionSpec(*axes)))


for name, asked in json.loads(sys.argv[1]):
    jax.make_mesh = make
    result = Path(tempfile.mkdtemp()) / "result.json"
    run = AbstractRun(asked, result)
    run.patch_jax()
    count, meshes, refused = jax.device_count(), [], []
    for tp in [n for n in range(1, count + 1) if count % n == 0]:
        try:
            auto = (jax.sharding.AxisType.Auto,) * 2
            meshes.append(jax.make_mesh((count // tp, tp), ("fsdp", "tp"), axis_types=auto))
        except Finished:
            refused.append((f"fsdp={count // tp},tp={tp}", json.loads(result.read_text())["refused"]))
    chosen = meshes[len(meshes) // 2]
    step = jax.jit(lambda weights, rows: rows @ weights)
    with chosen:
        step.lower(array(chosen, "fsdp", "tp"), array(chosen, "fsdp")).compile()
    found[name] = {
        "hosts": len({device.process_index for device in run.devices}),
        "meshes": ["fsdp={fsdp},tp={tp}".format(**mesh.shape) for mesh in meshes],
        "refused": refused,
    }
print(json.dumps(found))
"""


@pytest.mark.real
def test_meshes_and_hosts_are_those_of_libtpus_own_topologies() -> None:
    """Every mesh of every slice, as `compile` lays a port's out: devices of libtpu that XLA compiles for, or a line."""
    asked = [slice_named(name) for name in names()]
    message = {"compile": True, "mesh": None, "seq_len": None, "prompt_len": None, "completion_len": None}
    told = [
        (one.name, message | {"topology": {"name": one.topology_name, "arguments": dict(one.arguments)}})
        for one in asked
    ]
    words = [sys.executable, "-c", LAYOUTS, json.dumps(told)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment(8), check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert {name: (one["hosts"], one["meshes"]) for name, one in found.items()} == {
        one.name: (one.hosts, meshes_of(one)) for one in asked
    }
    lines = [(mesh, line) for one in found.values() for mesh, line in one["refused"]]
    assert ("fsdp=8,tp=2" in dict(lines)) and all(mesh in line and "--mesh takes" in line for mesh, line in lines)
