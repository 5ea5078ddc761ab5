"""Runs a ported script until its training step exists, and compiles that step for a TPU slice.

    python -m porter.tpu.abstract_run REQUEST.json RESULT.json SCRIPT ARGS...

The script is not modified and loads nothing: its model, adapters and optimizer state are shapes with shardings on the
slice's devices, which libtpu describes without there being any; its dataset and tokenizer are empty stand-ins. What
PeftTrainer would jit and call is lowered and compiled with the real XLA:TPU compiler. Runs in a process of its own.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from ..source.program import program_text
from ..validate.jax_side.observe_jax import fitted, replace_everywhere, runtimes, without_torch
from ..validate.running.script import run_script
from ..validate.world.start import stand_in_world
from .absent import Absent, BatchShapes, Unplanned
from .compiled_step import compiled, described
from .config import cut_layers, one_period, read_config
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
    warnings.filterwarnings("ignore")
    without_torch()
    stand_in_world(Silent(), "port", [program_text(Path(script))])
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
    return code if run.done else code or NEVER_TRAINED


NEVER_TRAINED = 9
UNPLANNED = ("CPOBatches", "GKDBatches", "GRPOBatches", "KTOBatches", "ORPOBatches", "PreferenceBatches", "RLOOBatches")


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
        self.shapes: BatchShapes | None = None
        self.config: dict[str, Any] = {}
        self.whole: dict[str, Any] = {}
        self.devices = slice_devices(request)

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
                raise ValueError(
                    f"jax.make_mesh can't lay {mesh} out on {self.request['topology']['name']}: it splits no axis of "
                    "the topology there; --mesh takes another one"
                ) from None

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

        for name in ("apply_lora", "apply_peft"):
            replace_everywhere(runtime, name, _adapting(getattr(runtime, name)))
        replace_everywhere(runtime, "load_adapter", lambda model, _: model)  # shapes have no values
        replace_everywhere(runtime, "load_model", functools.partial(self.load_model, runtime))
        replace_everywhere(runtime, "remat", rematerialise)
        for name in ("fresh_dir", "resume_dir"):
            replace_everywhere(runtime, name, str)
        replace_everywhere(runtime, "get_dataset", Absent(self.request["rows"]))
        for name in ("SFTBatches", "TrainerBatches"):
            replace_everywhere(runtime, name, _batches(self, getattr(runtime, name)))
        for name in UNPLANNED:
            replace_everywhere(runtime, name, Unplanned)
        self.turn_on_remat = remat
        self.attend_in_blocks = runtime.attend_in_blocks
        self.jitted = importlib.import_module(runtime.__name__ + ".lora.train_step").jitted

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
        extra = [] if family is None else [families.read_family(models._beside_script(family))]
        config = read_config(str(model_id), self.request["model"], families, extra)
        found = families.family_of(config, str(model_id), extra)
        self.whole = found.sizes(config)
        if self.request["layers"] is not None:
            config = cut_layers(config, self.request["layers"] or one_period(self.whole))
        problems = runtime_mesh(runtime).mesh_problems(found, config, mesh.shape["fsdp"], mesh.shape["tp"])
        if problems:
            raise ValueError(f"{model_id} does not fit the mesh {dict(mesh.shape)}:\n  " + "\n  ".join(problems))
        text = families.text_config(config)
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
        self.config = config
        model.porter = models.ModelInfo(str(model_id), str(model_id), found, json.dumps(config), asked)
        return model

    def patch_trainer(self) -> None:
        from tunix.sft import peft_trainer

        trainer = peft_trainer.PeftTrainer
        init = trainer.__init__
        run = self

        @functools.wraps(init)
        def patched_init(
            self: Any, model: Any, optimizer: Any, training_config: Any, *args: Any, **kwargs: Any
        ) -> None:
            if run.request["remat"] == "decoder" and not run.remat:
                run.turn_on_remat(model)
                run.remat = True
            if run.request["query_block"]:
                run.attend_in_blocks(model, run.request["query_block"])
            config = training_config
            for name in ("checkpoint_root_directory", "metrics_logging_options", "profiler_options"):
                setattr(config, name, None)
            with abstract_optimizer(peft_trainer):
                init(self, model, optimizer, config, *args, **kwargs)

        def train(self: Any, train_ds: Any, *args: Any, **kwargs: Any) -> None:
            run.compile(self, train_ds)
            raise Finished(0)

        trainer.__init__, trainer.train = patched_init, train

    def compile(self, trainer: Any, batches: Any) -> None:
        """Compile what `PeftTrainer.train` calls for each micro-batch, and write down what came of it."""
        import jax
        from jax.interpreters import pxla
        from tunix.sft import sharding_utils

        mesh = pxla.thread_resources.env.physical_mesh
        if mesh.empty:
            raise ValueError("trainer.train was called outside `with mesh:`, so nothing would be sharded")
        spec = jax.sharding.PartitionSpec(*trainer.config.data_sharding_axis)
        arrays = batches.batch() if isinstance(batches, BatchShapes) else next(iter(batches))
        batch = jax.tree.map(
            lambda array: jax.ShapeDtypeStruct(
                array.shape, array.dtype, sharding=sharding_utils.get_sharding(array, mesh=mesh, pspec=spec)
            ),
            arrays,
        )
        placed(trainer.optimizer, mesh, None)
        say("tracing")
        result = {**described(trainer, batch, self.shapes, self.whole), "remat": self.remat}
        result["quick"] = self.request["quick"]
        if self.request["compile"]:
            result |= compiled(self.jitted_step(trainer), trainer, batch, say, self.request.get("dump"))
        temporary = self.result.with_suffix(".part")
        temporary.write_text(json.dumps(result), encoding="utf-8")
        os.replace(temporary, self.result)
        self.done = True

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


def _batches(run: AbstractRun, original: Any) -> Any:
    """A stand-in for a class of batches that binds its arguments by the class's own signature."""
    signature = inspect.signature(original.__init__)

    class Shapes(BatchShapes):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            given = signature.bind(None, *args, **kwargs)
            given.apply_defaults()
            request = run.request
            super().__init__(
                given.arguments["mesh"],
                {"max_length": None, **given.arguments},
                seq_len=request["seq_len"],
                batch=request["batch"],
                rows=request["rows"],
            )
            run.shapes = self

        from_args: Any = classmethod(original.from_args.__func__)

    return Shapes


def runtime_mesh(runtime: ModuleType) -> ModuleType:
    return importlib.import_module(runtime.__name__ + ".facts.mesh")


if __name__ == "__main__":
    sys.exit(main())
