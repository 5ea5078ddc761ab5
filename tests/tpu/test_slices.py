"""Slices by name."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from porter.errors import InputError
from porter.tpu.compile import environment
from porter.tpu.slices import GIB, mesh_of, meshes_of, names, slice_named


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


LAYOUTS = """
import json, sys
import jax
from jax.experimental import topologies
found = {}
for name, topology, arguments in json.loads(sys.argv[1]):
    devices = topologies.get_topology_desc(platform="tpu", topology_name=topology, **arguments).devices
    meshes = []
    for tp in [n for n in range(1, len(devices) + 1) if len(devices) % n == 0]:
        try:
            auto = (jax.sharding.AxisType.Auto,) * 2
            jax.make_mesh((len(devices) // tp, tp), ("fsdp", "tp"), axis_types=auto, devices=devices)
            meshes.append(f"fsdp={len(devices) // tp},tp={tp}")
        except NotImplementedError:
            pass
    found[name] = [len({device.process_index for device in devices}), meshes]
print(json.dumps(found))
"""


@pytest.mark.real
def test_meshes_and_hosts_are_those_of_libtpus_own_topologies() -> None:
    asked = [slice_named(name) for name in names()]
    told = json.dumps([(one.name, one.topology_name, dict(one.arguments)) for one in asked])
    done = subprocess.run(
        [sys.executable, "-c", LAYOUTS, told], capture_output=True, text=True, env=environment(8), check=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == {one.name: [one.hosts, meshes_of(one)] for one in asked}
