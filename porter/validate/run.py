"""Runs a source under TRL and its port under Tunix, and compares what they did."""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from ..errors import InputError
from ..releases.history import history
from ..source.machine.gpu_of_run import USUAL, gpu_of_run
from ..source.notebooks.program import is_notebook, program_text, read_program
from ..source.parsing import read_module
from ..source.project.commits import latest_day
from .comparing.compare import DEVICES, check_devices, compare, loss_floor
from .comparing.left_behind import cut, not_compared
from .comparing.tolerances import tolerances
from .comparing.trace import Trace
from .comparing.verdict import Check, Verdict, distinct
from .environments.choose import (
    keeps_dropout,
    port_python,
    releases_of,
    remember_python,
    remembered_python,
    source_python,
)
from .helping import cause_of_crash, crash_of, is_environment, last_error
from .made_up_again import repaired
from .observing.settings import LATE, Settings
from .options import DEFAULTS, Options
from .running.processes import Limits, RunFailed, environment, hub_reachable, import_ahead, run_observed
from .stand_ins.command_line.arguments import recorded_arguments
from .stand_ins.command_line.command_lines import commands_for, project_of
from .stand_ins.command_line.project import project_sources

WORLD_SIZE = re.compile(r"WORLD_SIZE|world_size|num_processes|device_count")
PORT_RUNS = "the port runs"
UNTRAINED = "trained no token of its rows"
PROCESSES, ACROSS = "{} processes", "{}, tensor parallelism across them"
SLOWER = 3.0  # a port, which is compiled first, may take so many times what its source took before it is ended
NEVER = (
    "dtypes other than {dtype}, dropout's masks, rematerialisation",
    "all that follows step {steps} but the learning rates and what the run leaves behind",
)
AFTER = "after its training the {side} {what}"
FAILED = AFTER.format(side="source", what="crashed")
SHOWN_LINES = 12  # of a port's traceback
PATIENCE = 0.4  # of --timeout: a source that has trained for so long stops after the step that it is in
OTHER_STEPS = 8  # of the port on other meshes: what sharding breaks, it breaks at once


def validate(
    source: Path, port: Path, options: Options = DEFAULTS, say: Callable[[str], None] = lambda line: None
) -> Verdict:
    """Train both scripts for some steps and compare them; `say` gets lines of progress.

    A port that fails where the source didn't differs. InputError for files or options that can't be used; RunFailed
    when the source can't be run, or the port for what this machine lacks.
    """
    started = time.monotonic()
    check_input(source, port, options)
    say(f"tpu-port: runs {source} and {port}")
    failed: RunFailed | None = None
    others: list[tuple[str, Trace | RunFailed]] = []
    with tempfile.TemporaryDirectory(prefix="tpu-port-validate-") as work:
        import_ahead("port", port, port_environment(replace(options, hosts=1)), source=source)  # while the source runs
        trace, notes = run_source(source, options, work, say)
        notes += [line for path in (source, port) if is_notebook(path) for line in read_program(path).left_out]
        check_trains(trace)
        options = replace(options, arguments=recorded_arguments(work) or options.arguments)
        if any(note.startswith(LATE) for note in trace.notes):
            options = replace(options, steps=len(trace.steps))
        seconds_source = time.monotonic() - started
        options = replace(options, timeout=max(options.timeout, SLOWER * seconds_source))
        ported = Trace()
        try:
            ported = run_port(port, replace(options, hosts=1), work, say, source=source)
        except RunFailed as failure:
            if is_environment(failure.output, failure.reason):
                raise
            failed = failure
            if failure.trace is not None:
                ported = cut(failure.trace, AFTER.format(side="port", what=failure.reason))
        seconds_port = time.monotonic() - started - seconds_source
        checks = compare(trace, ported, tolerances(options.dtype)) if ported.steps else []
        if failed is None and ported.steps:
            others = run_elsewhere(source, port, options, work, say)
        elsewhere = [(name, run) for name, run in others if isinstance(run, Trace)]
        checks += check_devices(ported, elsewhere, tolerances(options.dtype), floor=loss_floor(trace))
        checks += [check_runs(port, run, DEVICES.format(name)) for name, run in others if isinstance(run, RunFailed)]
    # A port that fails after training where its source does is no worse; one that is only slow there may be right.
    if failed is not None and not failed.late and not (ported.steps and any(note.startswith(FAILED) for note in notes)):
        checks.append(check_runs(port, failed))  # what it trained before stands first: it tells more
    elif failed is None and not ported.steps:
        checks += compare(trace, ported, tolerances(options.dtype))
    never = [line.format(steps=options.steps, dtype=options.dtype) for line in NEVER] + not_compared(trace, ported)
    if ported.steps:
        notes.append(f"port on mesh {ported.config.get('mesh')}")
    notes.append(f"{options.dtype}, tolerances for {options.dtype}")
    stood_in = distinct([*trace.notes, *ported.notes])
    return Verdict(
        source=str(source),
        port=str(port),
        checks=tuple(checks),
        notes=distinct([*notes, *stood_in, *(f"never compared: {line}" for line in never)]),
        source_losses=tuple(trace.losses),
        port_losses=tuple(ported.losses),
        meshes=tuple((str(run.config.get("mesh")), tuple(run.losses)) for _, run in elsewhere),
        seconds=time.monotonic() - started,
        seconds_source=seconds_source,
        seconds_port=seconds_port,
        stood_in=stood_in,
        not_compared=distinct(never),
        output=_shortened(failed.output) if failed is not None else "",
    )


def check_trains(trace: Trace) -> None:
    """RunFailed where the source trained no token: whatever its port is like, nothing can be compared."""
    if trace.steps and not any(step.trained for step in trace.steps):
        raise RunFailed("source", UNTRAINED, "")


def check_runs(port: Path, failed: RunFailed, name: str = PORT_RUNS) -> Check:
    """A port that failed where its source didn't: its error, the line of the port that it comes from, and why."""
    crash = crash_of(failed.output, port)
    place = f"{crash.place(port.name)}: " if crash.line else ""
    what = crash.error if "crashed" in failed.reason else ""
    detail = f"the port {failed.reason}: {place}{what}" if place or what else f"the port {failed.reason}"
    detail += f" ({crash.code})" if crash.code else ""
    cause = cause_of_crash(failed.output, failed.reason)
    return Check(name, "differs", detail, cause=cause, line=crash.line or None, cell=crash.cell or None)


def _shortened(output: str) -> str:
    return "\n".join(output.splitlines()[-SHOWN_LINES:])


def check_input(source: Path, port: Path, options: Options) -> None:
    """InputError when a file is missing or an option can't be meant."""
    for path in (source, port):
        if not path.is_file():
            raise InputError(
                "no such file" if not path.exists() else "not a file", path, fix="name a Python script or a notebook"
            )
        if is_notebook(path):
            read_program(path)
    for given in (options.model, options.data, *(file for _, file in options.files)):
        if given is not None and not given.exists():
            raise InputError("no such file or folder", given)
    if options.model is not None and not (options.model / "config.json").is_file():
        raise InputError("no model: config.json is missing", options.model, fix="name a folder of save_pretrained")
    if options.devices % options.hosts:
        raise InputError(f"{options.devices} devices can't be dealt evenly to {options.hosts} processes (--hosts)")
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
    python, said = source_python(source, options.source_python, environments=options.environments, say=say)
    notes += said
    remember_python(work, python)
    say(f"source: {options.steps} steps of {source.name} on torch (CPU)")
    settings = settings_for(source, options, work, fold=1 if real else options.processes)
    run = partial(
        run_observed,
        "source",
        "porter.validate.torch_side.observe_torch",
        source,
        options.arguments,
        environment=environment(
            "source", dtype=options.dtype, devices=1, online=hub_reachable(), tiny=options.model is None
        ),
        limits=Limits(timeout=options.timeout, copy=options.copy_limit),
        python=str(python),
        processes=options.processes if real else 1,
        say=lambda line: say(f"source: {line}"),
    )
    try:
        is_shown = not options.arguments and bool(commands_for(source, project_of(source)))
        trace = repaired(run, settings, say, is_shown=is_shown)
    except RunFailed as failure:
        if failure.trace is None or not failure.trace.steps:
            raise
        # Its training is whole; a script may well end in what only a GPU or a login can do.
        trace = failure.trace
        after = AFTER.format(side="source", what=failure.reason)
        notes.append(after if failure.late else f"{after}: {last_error(failure.output)[:200]}")
        trace = cut(trace, after)
    trace.save(Path(work) / "source")
    return trace, notes


def asks_for_processes(source: Path) -> list[str]:
    """A note for a source that calculates with its number of processes: folded it sees one, and so does its port."""
    asked = WORLD_SIZE.search(program_text(source))
    if asked is None:
        return []
    return [
        f"the source reads {asked[0]}, which is 1 in a folded run: a port that calculates its batches from another "
        "number may look different or equal by mistake; --processes real compares it"
    ]


def run_port(
    port: Path,
    options: Options,
    work: str,
    say: Callable[[str], None],
    *,
    steps: int | None = None,
    source: Path | None = None,
    across: bool = False,
) -> Trace:
    """The port's trace under Tunix, started from the weights that `run_source` left in `work`.

    Of `options.hosts` JAX processes it is the first one's. It runs in a copy of the project of `source`, whose data and
    modules it needs; without one in a copy of its own.
    """
    say(f"port: {steps or options.steps} steps of {port.name} under Tunix ({_devices(options.devices)})")
    fold = options.processes if options.how == "fold" else 1
    settings = settings_for(None, options, work, fold=fold, initial=str(Path(work) / "source"))
    return run_observed(
        "port",
        "porter.validate.jax_side.observe_jax",
        port,
        options.arguments,
        replace(settings, steps=steps or options.steps, hosts=options.hosts, across=across),
        environment=port_environment(options, trained_by_source(Path(work), steps or options.steps)),
        limits=Limits(timeout=options.timeout, copy=options.copy_limit),
        python=str(port_python(port, source, environments=options.environments, say=say, like=remembered_python(work))),
        say=lambda line: say(f"port: {line}"),
        source=source,
    )


def trained_by_source(work: Path, steps: int) -> int:
    """The tokens of the first steps of the source's run in `work`, its rows padded to the longest one."""
    sizes = [row.tokens.size for step in Trace.load(work / "source").steps[:steps] for row in step.rows]
    return max(sizes, default=0) * len(sizes)


def port_environment(options: Options, tokens: int = 0) -> dict[str, str]:
    """The variables of the port's runs, which train on so many `tokens`."""
    online, tiny = hub_reachable(), options.model is None
    devices = options.devices // options.hosts
    found = environment("port", dtype=options.dtype, devices=devices, online=online, tiny=tiny, tokens=tokens)
    return found if options.hosts == 1 else {**found, "JAX_PLATFORMS": "cpu"}


def run_elsewhere(
    source: Path, port: Path, options: Options, work: str, say: Callable[[str], None]
) -> list[tuple[str, Trace | RunFailed]]:
    """The port's traces on other meshes, for a few steps each, or how it failed there."""
    if options.meshes is None:
        fewer = [count for count in (1, 4) if count < options.devices]
        plans = [(_devices(count), replace(options, mesh=None, devices=count, hosts=1)) for count in fewer]
    else:
        plans = [(f"fsdp={mesh[0]},tp={mesh[1]}", replace(options, mesh=mesh, hosts=1)) for mesh in options.meshes]
    steps = min(options.steps, OTHER_STEPS)
    # Most of such a run is compiling, on one core: two at a time.
    with ThreadPoolExecutor(max_workers=2) as pool:
        runs = [
            (name, pool.submit(run_port, port, plan, work, _on(name, say), steps=steps, source=source))
            for name, plan in plans
        ]
        found = [(name, _trace_of(run)) for name, run in runs]
    return found + run_on_hosts(source, port, options, work, say, steps)


def run_on_hosts(
    source: Path, port: Path, options: Options, work: str, say: Callable[[str], None], steps: int
) -> list[tuple[str, Trace | RunFailed]]:
    """The port's traces in several JAX processes, one run after the other."""
    if options.hosts == 1:
        return []
    name, half = PROCESSES.format(options.hosts), max(options.devices // 2, 1)
    plans = [(name, options, False)]
    if options.devices > 1:
        plans.append((ACROSS.format(name), replace(options, mesh=(half, options.devices // half)), True))
    found: list[tuple[str, Trace | RunFailed]] = []
    for title, plan, across in plans:
        try:
            told = _on(title, say)
            found.append((title, run_port(port, plan, work, told, steps=steps, source=source, across=across)))
        except RunFailed as failure:
            found.append((title, failure))
    return found


def _trace_of(run: Future[Trace]) -> Trace | RunFailed:
    try:
        return run.result()
    except RunFailed as failure:
        return failure.trace if failure.late and failure.trace is not None else failure


def _on(name: str, say: Callable[[str], None]) -> Callable[[str], None]:
    return lambda line: say(f"{line} ({name})" if ": step " in line else line)


def settings_for(
    source: Path | None, options: Options, work: str, *, fold: int = 1, initial: str | None = None
) -> Settings:
    """What the observers are told. The source's text, from which made-up rows get their columns, is kept in `work`."""
    kept = Path(work) / "sources.json"
    if source is not None:
        kept.write_text(json.dumps(project_sources(source)), encoding="utf-8")
        (Path(work) / "project").write_text(str(project_of(source)), encoding="utf-8")
        (Path(work) / "capability.json").write_text(json.dumps(_capability(source)), encoding="utf-8")
        (Path(work) / "unsloth.json").write_text(json.dumps(_unsloth(source)), encoding="utf-8")
        (Path(work) / "dropout.json").write_text(json.dumps(keeps_dropout(source)), encoding="utf-8")
    widest = max(tp for _, tp in (*([options.mesh] if options.mesh else []), *(options.meshes or ()), (1, 1)))
    unsloth, day = json.loads((Path(work) / "unsloth.json").read_text(encoding="utf-8"))
    return Settings(
        work=work,
        steps=options.steps,
        dtype=options.dtype,
        model=str(options.model.absolute()) if options.model else None,
        data=str(options.data.absolute()) if options.data else None,
        mesh=options.mesh,
        fold=fold,
        initial=initial,
        kv_heads=8 if widest > 4 else 4,
        sources=tuple(json.loads(kept.read_text(encoding="utf-8"))),
        family=options.family,
        project=(Path(work) / "project").read_text(encoding="utf-8"),
        files=tuple((name, str(file.absolute())) for name, file in options.files),
        patience=options.timeout * PATIENCE if source is not None else None,
        chance=options.chance,
        capability=tuple(json.loads((Path(work) / "capability.json").read_text(encoding="utf-8"))),
        unsloth=unsloth,
        unsloth_day=day,
        keeps_dropout=json.loads((Path(work) / "dropout.json").read_text(encoding="utf-8")),
    )


def _unsloth(source: Path) -> tuple[str, str]:
    """The release of Unsloth that the source names, its pins or a notebook's outputs, and the day of its last commit;
    "" where none is known."""
    if "unsloth" not in source.read_text(encoding="utf-8", errors="replace"):
        return "", ""
    releases = releases_of(source)
    version, _, why = releases.get("unsloth", "").partition(" ")
    trl = releases.get("trl", "").partition(" ")[0]
    day = latest_day(source, history().date("trl", trl) if trl else None)
    return "" if why == "(newest table)" else version, day.isoformat() if day else ""


def _capability(source: Path) -> tuple[int, int]:
    """The compute capability of the GPU that the source names; the usual one where it doesn't parse."""
    from ..engine.packs.facts import note_facts
    from ..engine.packs.packs import load_packs
    from ..engine.packs.said_by_packs import facts_in

    try:
        module = read_module(source)
        note_facts(module, facts_in(load_packs()))
        return gpu_of_run(module).capability
    except InputError:
        return USUAL


def _devices(count: int) -> str:
    return f"{count} device{'' if count == 1 else 's'}"


def processes_of(port: Path, launch_config: Path | None) -> int:
    """How many processes the GPU run had: by the launch config, else by the recipe beside the port, else one."""
    recipe = port.with_suffix(".recipe.json")
    if launch_config is not None:
        from ..source.launch.launch_config import read_launch_config

        try:
            settings = {setting.name: setting.value for setting in read_launch_config(launch_config)}
            return int(settings.get("num_processes", 1))
        except InputError:  # of a launcher that a pack describes: the port knows what it said
            if not recipe.exists():
                raise
    if not recipe.exists():
        return 1
    from ..recipe import Recipe

    count = Recipe.from_json(recipe.read_text(encoding="utf-8")).known("mesh.processes")
    return count if isinstance(count, int) and count > 0 else 1
