"""Runs a source under TRL and its port under Tunix, and compares what they did."""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ..errors import InputError
from .compare import check_devices, compare, loss_floor
from .processes import environment, hub_reachable, run_observed
from .settings import Dtype, Settings
from .tolerances import tolerances
from .trace import Trace
from .verdict import Verdict

Mesh = tuple[int, int]
WORLD_SIZE = re.compile(r"WORLD_SIZE|world_size|num_processes|device_count")
NEVER = (
    "never compared: dtypes other than {dtype}, dropout's masks, rematerialisation, checkpoints and when they are "
    "written, and all that follows step {steps} but the learning rates"
)
OTHER_STEPS = 8  # of the port on other meshes: what sharding breaks, it breaks at once


@dataclass(frozen=True)
class Options:
    """What a user can ask of a validation.

    `mesh`: the port's (fsdp, tp), None for the script's own on all devices. `meshes`: further ones on which the
    port must give the same losses; None for 1 and 4 devices beside `devices`, empty for none. `processes`: of the GPU
    run; `fold` runs the source in one process with their batches together, `real` as that many. `timeout` in
    seconds for each run. `arguments` go to both scripts.
    """

    model: Path | None = None
    data: Path | None = None
    steps: int = 30
    dtype: Dtype = "float32"
    mesh: Mesh | None = None
    meshes: tuple[Mesh, ...] | None = None
    devices: int = 8
    processes: int = 1
    how: Literal["fold", "real"] = "fold"
    timeout: float = 900.0
    arguments: tuple[str, ...] = ()


def validate(
    source: Path, port: Path, options: Options = Options(), say: Callable[[str], None] = lambda line: None
) -> Verdict:
    """Train both scripts for some steps and compare them; `say` gets lines of progress.

    InputError for files or options that can't be used; RunFailed when a script crashes, hangs or never trains.
    """
    started = time.monotonic()
    check_input(source, port, options)
    with tempfile.TemporaryDirectory(prefix="tpu-port-validate-") as work:
        trace, notes = run_source(source, options, work, say)
        ported = run_port(port, options, work, say)
        checks = compare(trace, ported, tolerances(options.dtype))
        others = run_elsewhere(port, options, work, say) if ported.steps else []
        checks += check_devices(ported, others, tolerances(options.dtype), floor=loss_floor(trace))
    notes.append(NEVER.format(steps=options.steps, dtype=options.dtype))
    notes += [f"port on mesh {ported.config.get('mesh')}", f"{options.dtype}, tolerances for {options.dtype}"]
    return Verdict(
        source=str(source),
        port=str(port),
        checks=tuple(checks),
        notes=tuple(dict.fromkeys([*notes, *trace.notes, *ported.notes])),
        source_losses=tuple(trace.losses),
        port_losses=tuple(ported.losses),
        meshes=tuple((str(other.config.get("mesh")), tuple(other.losses)) for _, other in others),
        seconds=time.monotonic() - started,
    )


def check_input(source: Path, port: Path, options: Options) -> None:
    """InputError when a file is missing or an option can't be meant."""
    for path in (source, port):
        if not path.is_file():
            raise InputError("no such file" if not path.exists() else "not a file", path, fix="name a Python script")
        if path.suffix == ".ipynb":
            fix = f"save both as scripts: jupyter nbconvert --to script {path.name}"
            raise InputError("is a notebook; validate trains scripts", path, fix=fix)
    for given in (options.model, options.data):
        if given is not None and not given.exists():
            raise InputError("no such file or folder", given)
    if options.model is not None and not (options.model / "config.json").is_file():
        raise InputError("no model: config.json is missing", options.model, fix="name a folder of save_pretrained")
    for fsdp, tp in (*([options.mesh] if options.mesh else []), *(options.meshes or ())):
        if fsdp * tp > options.devices:
            raise InputError(f"mesh fsdp={fsdp},tp={tp} needs {fsdp * tp} devices of {options.devices}")


def run_source(source: Path, options: Options, work: str, say: Callable[[str], None]) -> tuple[Trace, list[str]]:
    """The source's trace under TRL on torch and CPU, and what to say about its processes."""
    real = options.processes > 1 and options.how == "real"
    notes = []
    if real:
        notes.append(f"the source ran as {options.processes} processes (gloo, data parallel; FSDP computes the same)")
    elif options.processes > 1:
        notes.append(
            f"the {options.processes} processes were folded into one on both sides: the same rows in a step; what "
            "processes do apart (fill up an epoch's last batch, average evaluation each over its own rows) is compared "
            "by --processes real alone"
        )
        notes += asks_for_processes(source)
    say(f"source: {options.steps} steps of {source.name} under TRL (torch, CPU)")
    trace = run_observed(
        "source",
        "porter.validate.observe_torch",
        source,
        options.arguments,
        settings_for(source, options, work, fold=1 if real else options.processes),
        environment=environment(
            "source", dtype=options.dtype, devices=1, online=hub_reachable(), tiny=options.model is None
        ),
        timeout=options.timeout,
        processes=options.processes if real else 1,
        say=lambda line: say(f"source: {line}"),
    )
    trace.save(Path(work) / "source")
    return trace, notes


def asks_for_processes(source: Path) -> list[str]:
    """A note for a source that calculates with its number of processes: folded it sees one, and so does its port."""
    asked = WORLD_SIZE.search(source.read_text(encoding="utf-8", errors="replace"))
    if asked is None:
        return []
    return [
        f"the source reads {asked[0]}, which is 1 in a folded run: a port that calculates its batches from another "
        "number may look different or equal by mistake; --processes real compares it"
    ]


def run_port(port: Path, options: Options, work: str, say: Callable[[str], None], *, steps: int | None = None) -> Trace:
    """The port's trace under Tunix, started from the weights that `run_source` left in `work`."""
    say(f"port: {steps or options.steps} steps of {port.name} under Tunix ({_devices(options.devices)})")
    fold = options.processes if options.how == "fold" else 1
    settings = settings_for(None, options, work, fold=fold, initial=str(Path(work) / "source"))
    return run_observed(
        "port",
        "porter.validate.observe_jax",
        port,
        options.arguments,
        replace(settings, steps=steps or options.steps),
        environment=environment(
            "port", dtype=options.dtype, devices=options.devices, online=hub_reachable(), tiny=options.model is None
        ),
        timeout=options.timeout,
        say=lambda line: say(f"port: {line}"),
    )


def run_elsewhere(port: Path, options: Options, work: str, say: Callable[[str], None]) -> list[tuple[str, Trace]]:
    """The port's traces on other meshes, for a few steps each."""
    if options.meshes is None:
        fewer = [count for count in (1, 4) if count < options.devices]
        plans = [(_devices(count), replace(options, mesh=None, devices=count)) for count in fewer]
    else:
        plans = [(f"fsdp={mesh[0]},tp={mesh[1]}", replace(options, mesh=mesh)) for mesh in options.meshes]
    steps = min(options.steps, OTHER_STEPS)
    # Most of such a run is compiling, on one core: two at a time.
    with ThreadPoolExecutor(max_workers=2) as pool:
        runs = [(name, pool.submit(run_port, port, plan, work, _on(name, say), steps=steps)) for name, plan in plans]
    return [(name, run.result()) for name, run in runs]


def _on(name: str, say: Callable[[str], None]) -> Callable[[str], None]:
    return lambda line: say(f"{line} ({name})" if ": step " in line else line)


def settings_for(
    source: Path | None, options: Options, work: str, *, fold: int = 1, initial: str | None = None
) -> Settings:
    """What the observers are told. The source's text, from which made-up rows get their columns, is kept in `work`."""
    kept = Path(work) / "sources.json"
    if source is not None:
        text = source.read_text(encoding="utf-8", errors="replace")
        kept.write_text(json.dumps([text]), encoding="utf-8")
    widest = max(tp for _, tp in (*([options.mesh] if options.mesh else []), *(options.meshes or ()), (1, 1)))
    return Settings(
        work=work,
        steps=options.steps,
        dtype=options.dtype,
        model=str(options.model) if options.model else None,
        data=str(options.data) if options.data else None,
        mesh=options.mesh,
        fold=fold,
        initial=initial,
        kv_heads=8 if widest > 4 else 4,
        sources=tuple(json.loads(kept.read_text(encoding="utf-8"))),
    )


def _devices(count: int) -> str:
    return f"{count} device{'' if count == 1 else 's'}"


def processes_of(port: Path, launch_config: Path | None) -> int:
    """How many processes the GPU run had: by the launch config, else by the recipe beside the port, else one."""
    if launch_config is not None:
        from ..source.launch import read_launch_config

        settings = {setting.name: setting.value for setting in read_launch_config(launch_config)}
        return int(settings.get("num_processes", 1))
    recipe = port.with_suffix(".recipe.json")
    if not recipe.exists():
        return 1
    from ..recipe import Recipe

    count = Recipe.from_json(recipe.read_text(encoding="utf-8")).known("mesh.processes")
    return count if isinstance(count, int) and count > 0 else 1
