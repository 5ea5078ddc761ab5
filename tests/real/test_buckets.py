"""Checkpoints in a bucket, behind a server of this machine that answers as Google Cloud Storage does.

`make buckets` installs gcsfs for them, which nothing else here needs.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from porter.runtime.saving.checkpoints import fresh_dir

from .bucket_server import REFUSED, Bucket, serving
from .processes import REPOSITORY, together, variables

pytestmark = pytest.mark.real
HAS_GCSFS = importlib.util.find_spec("gcsfs") is not None
needs_gcsfs = pytest.mark.skipif(not HAS_GCSFS, reason="make buckets installs gcsfs")

ASKS = "from porter import runtime as rt; import sys; print('GAVE', getattr(rt, sys.argv[1])('gs://mine/run'))"
TRAINS = """
import os, sys, time, urllib.request
import jax
from tests.real import host_runs
from porter import runtime as rt
from porter.runtime.callbacks import TrainerCallback

class Closes(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 3 and mode:
            while rt.get_last_checkpoint("gs://mine/run") is None:
                time.sleep(0.2)
            urllib.request.urlopen(os.environ["STORAGE_EMULATOR_HOST"] + "/" + mode)

model, how, mode = sys.argv[1:]
mesh = jax.make_mesh((2, 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
root = getattr(rt, how)("gs://mine/run")
print("LOSSES", host_runs.twelve_steps(model, mesh, root, Closes(), steps=4), rt.get_last_checkpoint("gs://mine/run"))
"""


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    with serving() as found:
        yield found


def ran(bucket: Bucket, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", *words]
    environment = variables(2, **bucket.variables, TPU_PORT_ALONE="1")
    return subprocess.run(command, env=environment, cwd=REPOSITORY, capture_output=True, text=True, timeout=300)


@pytest.mark.skipif(HAS_GCSFS, reason="gcsfs is there")
def test_a_file_system_that_is_not_installed_is_said_before_the_training() -> None:
    with pytest.raises(ValueError, match=r"gs://mine/run can't be written to: ImportError: Please install gcsfs"):
        fresh_dir("gs://mine/run")


@needs_gcsfs
@pytest.mark.parametrize("mode", ["closed", "read only", "missing"])
@pytest.mark.parametrize("how", ["fresh_dir", "resume_dir"])
def test_a_bucket_that_may_not_be_written_to_ends_the_run_at_its_start(bucket: Bucket, mode: str, how: str) -> None:
    bucket.mode = mode
    done = ran(bucket, ASKS, how)
    assert done.returncode == 1 and "GAVE" not in done.stdout
    line = done.stderr.splitlines()[-1]
    assert line.startswith("ValueError: gs://mine/run can't be written to: ")
    assert mode == "missing" or REFUSED in line
    assert not bucket.objects


@needs_gcsfs
def test_all_processes_say_that_a_bucket_may_not_be_written_to(bucket: Bucket) -> None:
    bucket.mode = "read only"
    for status, said in together([["-c", ASKS, "fresh_dir"]] * 2, timeout=300, more=bucket.variables):
        assert status == 1 and "gs://mine/run can't be written to: " in said and REFUSED in said, said


@needs_gcsfs
@pytest.mark.long
def test_a_run_that_loses_its_permission_keeps_its_checkpoints_and_goes_on(
    tiny: Callable[..., Path], bucket: Bucket
) -> None:
    model = str(tiny("qwen3", num_hidden_layers=1))
    whole = ran(bucket, TRAINS, model, "fresh_dir", "")
    assert "gs://mine/run/4" in whole.stdout, whole.stderr
    state = json.loads(bucket.objects["run/trainer_state.json"][0])
    assert [line["step"] for line in state["log_history"] if "loss" in line] == [1, 2, 3, 4]
    assert not [name for name in bucket.objects if ".tpu_port_" in name]
    bucket.objects.clear()
    lost = ran(bucket, TRAINS, model, "fresh_dir", "read%20only")
    assert lost.returncode == 1 and REFUSED in lost.stderr
    bucket.mode = "open"
    bucket.put("run/9/model_params/manifest.ocdbt", b"not finished", None)
    rest = ran(bucket, TRAINS, model, "resume_dir", "")
    assert "gs://mine/run/4" in rest.stdout, rest.stderr
    losses, going_on = (
        json.loads(done.stdout.partition("LOSSES ")[2].partition("]")[0] + "]") for done in (whole, rest)
    )
    assert going_on == pytest.approx(losses[-len(going_on) :], rel=1e-6) and 1 <= len(going_on) < 4
