"""Runs a ported script until its training step exists, and compiles that step for a TPU slice.

    python -m porter.tpu.tracing.abstract_run REQUEST.json RESULT.json SCRIPT ARGS...

The script is not modified and loads nothing: its model, adapters and optimizer state are shapes with shardings on the
slice's devices, which libtpu describes without there being any; its dataset and tokenizer are empty stand-ins. What
PeftTrainer would jit and call is lowered and compiled with the real XLA:TPU compiler. Runs in a process of its own.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from ...runtime.facts.family import text_config
from ...source.notebooks.program import program_text
from ...validate.jax_side.observe_jax import fitted, without_torch
from ...validate.jax_side.observe_runtime import runtimes
from ...validate.jax_side.replacing import replace_everywhere
from ...validate.running.script import run_script
from ...validate.world.start import stand_in_world
from .absent import Absent
from .batches import stand_ins
from .compiled_step import compiled_program, described, pass_described, step_memory
from .config import cut_layers, one_period, read_config
from .programs import Program, forward_programs, kept, sampling_programs
from .row_lengths import RowLengths
from .shapes import abstract, abstract_optimizer, mesh_of, placed


class Silent:
    """Hears of what stands in for trackers, logins and hosted notebooks, which nothing here depends on."""

    def note(self, line: str) -> None:
        pass


class Finished(SystemExit):
    """The step is compiled; nothing after `trainer.train` matters."""


def main() -> int:
    import jax

    request_file, result_file, script, *arguments = sys.argv[1:]
    request = json.loads(Path(request_file).read_text(encoding="utf-8"))
    os.chdir(request["folder"])
    warnings.filterwarnings("ignore")
    without_torch()
    stand_in_world(Silent(), "port", [program_text(Path(script))], Path(result_file).parent)
    run = AbstractRun(request, Path(result_file))
    if request["quick"]:
        jax.config.update("jax_exec_time_optimization_effort", -1.0)
    run.patch_jax()
    run.patch_data()
    run.patch_qwix()
    for runtime in runtimes(Path(script)):
        run.patch_runtime(runtime)
    run.patch_trainer()
    code = run_script(script, arguments, Path(result_file).parent)
    return 0 if run.refused else code if run.done else code or NEVER_TRAINED


NEVER_TRAINED = 9


def say(stage: str) -> None:
    """A line that the parent process turns into progress."""
    print(f"stage {stage}", flush=True)


class AbstractRun:
    """The patches of one process, and the result of its first training run."""

    def __init__(self, request: dict[str, Any], result: Path) -> None:
        self.request = request
        self.result = result
        self.done = False
        self.remat = False
        self.refused = False
        self.packages: tuple[str, ...] = ()  # the runtimes that the script may import
        self.shapes: Any = None  # the last batches that the script has made
        self.configs: dict[str, dict[str, Any]] = {}  # of each model that the script loads
        self.whole: dict[str, dict[str, Any]] = {}  # its sizes, with all layers
        self.lengths = RowLengths(request, self.refuse)
        self.devices = slice_devices(request)

    def refuse(self, line: str) -> NoReturn:
        """End the run: `line` says what can't be compiled, and why."""
        self.refused = True
        self.write({"refused": line})
        raise Finished(0)

    def refuse_batch(self, kind: str) -> None:
        if self.request["batch"]:
            self.refuse(
                f"the loss of this {kind} run compares the rows of a micro-batch, which the script's batch size makes: "
                "change per_device_train_batch_size and gradient_accumulation_steps there, and leave out --batch"
            )

    def write(self, result: dict[str, Any]) -> None:
        """The result's file, whole or not at all."""
        temporary = self.result.with_suffix(".part")
        temporary.write_text(json.dumps(result), encoding="utf-8")
        os.replace(temporary, self.result)

    def patch_jax(self) -> None:
        """The slice's devices are all there are, so that Tunix also constrains its activations as on a TPU."""
        import jax

        make = jax.make_mesh
        devices = self.devices

        @functools.wraps(make)
        def make_mesh(axis_shapes: Any, axis_names: Any, *args: Any, **kwargs: Any) -> Any:
            kwargs.pop("devices", None)
            sizes = self.request["mesh"]
            shape = tuple(sizes.get(n, 1) for n in axis_names) if sizes else fitted(tuple(axis_shapes), len(devices))
            try:
                return make(shape, axis_names, *args, devices=devices, **kwargs)
            except NotImplementedError:
                mesh = ",".join(f"{name}={size}" for name, size in zip(axis_names, shape, strict=True))
                self.refuse(
                    f"jax.make_mesh can't lay {mesh} out on {self.request['topology']['name']}: it splits no axis of "
                    "the topology there; --mesh takes another one"
                )

        jax.make_mesh = make_mesh
        jax.devices = jax.local_devices = lambda *args, **kwargs: list(devices)
        jax.device_count = jax.local_device_count = lambda *args, **kwargs: len(devices)

    def patch_data(self) -> None:
        import datasets
        import transformers

        nothing = Absent(self.request["rows"])
        for name in ("load_dataset", "load_from_disk", "concatenate_datasets", "interleave_datasets"):
            setattr(datasets, name, nothing)
        for name in ("from_list", "from_dict", "from_json", "from_generator", "from_pandas", "from_parquet"):
            setattr(datasets.Dataset, name, staticmethod(nothing))
        transformers.AutoTokenizer.from_pretrained = transformers.AutoProcessor.from_pretrained = nothing

    def patch_qwix(self) -> None:
        """Adapters are shapes too, whether the script injects them with the runtime or with qwix."""
        import qwix
        from flax import nnx

        inject = qwix.apply_lora_to_model

        @functools.wraps(inject)
        def apply_lora_to_model(model: Any, provider: Any, *args: Any, **kwargs: Any) -> Any:
            kwargs.pop("rngs", None)  # made outside, they can't be drawn from in a trace
            adapted = abstract(lambda inner: inject(inner, provider, *args, rngs=nnx.Rngs(0), **kwargs), model)
            mesh = mesh_of(model)
            if mesh is not None:  # None inside the trace of rt.apply_lora, which places what comes out
                placed(adapted, mesh, None)
            return adapted

        qwix.apply_lora_to_model = apply_lora_to_model

    def patch_runtime(self, runtime: ModuleType) -> None:
        remat = runtime.remat

        def rematerialise(model: Any) -> Any:
            if self.request["remat"] == "none":
                return model
            self.remat = True
            return remat(model)

        self.packages += (f"{runtime.__name__}.",)
        for name in ("apply_lora", "apply_peft"):
            replace_everywhere(runtime, name, _adapting(getattr(runtime, name)))
        replace_everywhere(runtime, "load_adapter", lambda model, _: model)  # shapes have no values
        replace_everywhere(runtime, "load_model", functools.partial(self.load_model, runtime))
        replace_everywhere(runtime, "remat", rematerialise)
        for name in ("fresh_dir", "resume_dir"):
            replace_everywhere(runtime, name, str)
        replace_everywhere(runtime, "get_dataset", Absent(self.request["rows"]))
        for name, batches in list(stand_ins(self, runtime)):
            replace_everywhere(runtime, name, batches)
        self.turn_on_remat = remat
        self.attend_in_blocks = runtime.attend_in_blocks
        self.jitted = importlib.import_module(runtime.__name__ + ".lora.train_step").jitted

    def context(self) -> int | None:
        """The shortest context of the models loaded so far, in tokens; None where none says."""
        texts = [config.get("text_config") or config for config in self.configs.values()]
        return min(
            (text["max_position_embeddings"] for text in texts if text.get("max_position_embeddings")), default=None
        )

    def load_model(
        self,
        runtime: ModuleType,
        model_id: Any,
        mesh: Any,
        *,
        dtype: Any = None,
        compute_dtype: Any = None,
        revision: str | None = None,
        quantization: Any = None,
        family: Any = None,
    ) -> Any:
        """`rt.load_model` without weights: the parameters' shapes, dtypes and shardings."""
        import jax.numpy as jnp
        from flax import nnx

        models = importlib.import_module(runtime.__name__ + ".models.load_model")
        families = importlib.import_module(runtime.__name__ + ".facts.families")
        table = family if isinstance(family, families.Family | None) else models._beside_script(family)
        extra = [] if table is None else [table]
        try:
            config = read_config(str(model_id), self.request["model"], families, extra)
        except FileNotFoundError as unknown:
            self.refuse(str(unknown))
        found = families.family_of(config, str(model_id), extra)
        whole = self.whole[str(model_id)] = found.sizes(config)
        if self.request["layers"] is not None:
            config = cut_layers(config, min(self.request["layers"] or one_period(whole), int(whole["layers"])))
        problems = runtime_mesh(runtime).mesh_problems(found, config, mesh.shape["fsdp"], mesh.shape["tp"])
        if problems:
            self.refuse(f"{model_id} does not fit the mesh {dict(mesh.shape)}: {'; '.join(problems)}")
        text = text_config(config)
        named = text.get("dtype") or text.get("torch_dtype") or config.get("torch_dtype") or "bfloat16"
        dtype = jnp.dtype(dtype if dtype is not None else str(named).removeprefix("torch."))
        module = importlib.import_module(found.module + ".model")
        models.patches.apply(module)
        tunix_config = models.tunix_config(found, config, dtype, compute_dtype)
        model = nnx.eval_shape(lambda: getattr(module, found.model_class)(tunix_config, rngs=nnx.Rngs(params=0)))
        placed(model, mesh, dtype)
        asked = models.Quantization.read(quantization)
        if asked is not None:
            loading = importlib.import_module(runtime.__name__ + ".models.quantized_loading")
            model = loading.quantize_shapes(model, found, config, asked)
        self.configs[str(model_id)] = config
        types = {"dtype": str(dtype), "compute_dtype": compute_dtype and str(jnp.dtype(compute_dtype))}
        model.porter = models.ModelInfo(str(model_id), str(model_id), found, json.dumps(config), asked, **types)
        return model

    def adjust(self, model: Any) -> None:
        """Remat and blocks of attention that the request asks for, in the model that trains."""
        if self.request["remat"] == "decoder" and not self.remat:
            self.turn_on_remat(model)
            self.remat = True
        if self.request["query_block"]:
            self.attend_in_blocks(model, self.request["query_block"])

    def patch_trainer(self) -> None:
        from tunix.sft import peft_trainer

        trainer = peft_trainer.PeftTrainer
        init = trainer.__init__
        run = self

        @functools.wraps(init)
        def patched_init(
            self: Any, model: Any, optimizer: Any, training_config: Any, *args: Any, **kwargs: Any
        ) -> None:
            run.adjust(model)
            config = training_config
            for name in ("checkpoint_root_directory", "metrics_logging_options", "profiler_options"):
                setattr(config, name, None)
            with abstract_optimizer(peft_trainer):
                init(self, model, optimizer, config, *args, **kwargs)

        def train(self: Any, train_ds: Any, *args: Any, **kwargs: Any) -> None:
            made = next(cls for cls in type(self).__mro__ if "_prepare_inputs" in vars(cls))
            if made is not trainer and not made.__module__.startswith(run.packages):
                run.refuse(
                    f"{made.__name__} of {made.__module__} makes more of a batch before its step: plan and compile "
                    "know PeftTrainer, and the runtime's trainers for preferences and distillation"
                )
            run.compile(self, train_ds)
            raise Finished(0)

        trainer.__init__, trainer.train = patched_init, train

    def compile(self, trainer: Any, batches: Any) -> None:
        """Compile what `PeftTrainer.train` calls for each micro-batch and what the run computes beside it, and write
        down what came of it."""
        import jax
        from jax.interpreters import pxla
        from tunix.sft import sharding_utils

        mesh = pxla.thread_resources.env.physical_mesh
        if mesh.empty:
            self.refuse("trainer.train was called outside `with mesh:`, so nothing would be sharded")
        spec = jax.sharding.PartitionSpec(*trainer.config.data_sharding_axis)
        batch = jax.tree.map(
            lambda array: jax.ShapeDtypeStruct(
                array.shape, array.dtype, sharding=sharding_utils.get_sharding(array, mesh=mesh, pspec=spec)
            ),
            self.arrays(batches),
        )
        placed(trainer.optimizer, mesh, None)
        say("tracing")
        micro_batches = trainer.config.get_with_default("gradient_accumulation_steps", 1)
        programs = list(forward_programs(trainer, batch, micro_batches))
        for program in programs:
            batch |= program.gives
        programs += sampling_programs(batches, mesh)
        sizes = self.whole[trainer.model.porter.id]
        result = {**described(trainer, batch, self.shapes, sizes), "remat": self.remat, "quick": self.request["quick"]}
        held = kept(trainer, batches)
        result["resident"] = sum(held.values()) - held["model"] - held["optimizer"]
        passes = [
            pass_described(
                program,
                self.whole[program.model.porter.id],
                sum(held.values()) - program.held,
                own=program.model is trainer.model,
            )
            for program in programs
        ]
        if self.request["compile"]:
            result |= self.compiled(trainer, batch)
            passes = [told | self.compiled_pass(program) for told, program in zip(passes, programs, strict=True)]
        self.write(result | {"passes": passes})
        self.done = True

    def arrays(self, batches: Any) -> Any:
        """A micro-batch."""
        if hasattr(batches, "batch"):
            return batches.batch()
        found = next(iter(batches), None)
        if found is None:
            self.refuse("the script makes its batches of the dataset itself, which is not read here: use rt.SFTBatches")
        return found

    def compiled(self, trainer: Any, batch: Any) -> dict[str, Any]:
        """The training step."""
        started = time.monotonic()
        lowered = self.jitted_step(trainer).lower(trainer.model, trainer.optimizer, batch).lowered
        traced = round(time.monotonic() - started, 2)
        found = compiled_program(lowered, say, "compiling", self.request.get("dump"))
        if "memory" in found:
            found["memory"] |= step_memory(trainer, batch)
        return {**found, "trace_seconds": traced}

    def compiled_pass(self, program: Program) -> dict[str, Any]:
        """A pass beside it; of one that samples also a turn of its loop."""
        found = compiled_program(program.lower(), say, f"compiling {program.name}")
        if program.token is not None and "memory" in found:
            turn = compiled_program(program.token(), say, f"compiling a token of {program.name}")
            names = ("seconds", "flops", "bytes", "collectives")
            found |= {f"token_{name}": turn[name] for name in names if name in turn}
            found["compile_seconds"] = round(found["compile_seconds"] + turn["compile_seconds"], 2)
        return found

    def jitted_step(self, trainer: Any) -> Any:
        """The step jitted as `PeftTrainer.train` will: the runtime's way for a model with LoRA, else Tunix's."""
        from flax import nnx

        step = trainer.create_train_step_fn()
        if getattr(trainer.model, "lora", None) is not None:
            return self.jitted(step)
        return nnx.jit(step, donate_argnames=("optimizer",))


def slice_devices(request: dict[str, Any]) -> list[Any]:
    """The slice's devices as libtpu describes them; simulated CPU devices when nothing is to be compiled."""
    import jax

    if not request["compile"]:
        return list(jax.devices()[: request["devices"]])
    from jax.experimental import topologies

    topology = request["topology"]
    described = topologies.get_topology_desc(platform="tpu", topology_name=topology["name"], **topology["arguments"])
    return list(described.devices)


def _adapting(original: Callable[..., Any]) -> Callable[..., Any]:
    """`rt.apply_lora` or `rt.apply_peft`, traced: the adapters' shapes, where they will be."""

    @functools.wraps(original)
    def adapt(model: Any, lora: Any, mesh: Any, **kwargs: Any) -> Any:
        adapted = abstract(lambda inner: original(inner, lora, mesh, **kwargs), model)
        placed(adapted, mesh, None)
        return adapted

    return adapt


def runtime_mesh(runtime: ModuleType) -> ModuleType:
    return importlib.import_module(runtime.__name__ + ".facts.mesh")


if __name__ == "__main__":
    sys.exit(main())
