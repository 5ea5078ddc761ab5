"""Runs a ported script until its training step exists, and compiles that step for a TPU slice.

    python -m porter.tpu.abstract_run REQUEST.json RESULT.json SCRIPT ARGS...

The script is not modified and loads nothing: its model, adapters and optimizer state are shapes with shardings on the
slice's devices, which libtpu describes without there being any; its dataset and tokenizer are empty stand-ins. What
PeftTrainer would jit and call is lowered and compiled with the real XLA:TPU compiler. Runs in a process of its own.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from ..validate.observe_jax import fitted, replace_everywhere, runtimes, without_torch
from ..validate.script import run_script
from .absent import Absent, BatchShapes
from .config import cut_layers, one_period, period, read_config
from .hlo import collectives, out_of_memory


class Finished(SystemExit):
    """The step is compiled; nothing after `trainer.train` matters."""


def main() -> int:
    request_file, result_file, script, *arguments = sys.argv[1:]
    request = json.loads(Path(request_file).read_text(encoding="utf-8"))
    warnings.filterwarnings("ignore")
    without_torch()
    run = AbstractRun(request, Path(result_file))
    run.patch_jax()
    run.patch_data()
    run.patch_qwix()
    for runtime in runtimes(Path(script)):
        run.patch_runtime(runtime)
    run.patch_trainer()
    code = run_script(script, arguments, Path(result_file).parent)
    return code if run.done else code or NEVER_TRAINED


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
            return make(shape, axis_names, *args, devices=devices, **kwargs)

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
        replace_everywhere(runtime, "load_model", functools.partial(self.load_model, runtime))
        replace_everywhere(runtime, "remat", rematerialise)
        for name in ("fresh_dir", "resume_dir"):
            replace_everywhere(runtime, name, str)
        replace_everywhere(runtime, "get_dataset", Absent(self.request["rows"]))
        for name in ("SFTBatches", "TrainerBatches"):
            replace_everywhere(runtime, name, _batches(self, getattr(runtime, name)))
        self.turn_on_remat = remat
        self.jitted = importlib.import_module(runtime.__name__ + ".train_step").jitted

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

        models = importlib.import_module(runtime.__name__ + ".models")
        families = importlib.import_module(runtime.__name__ + ".families")
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
            loading = importlib.import_module(runtime.__name__ + ".quantized_loading")
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
        """Lower and compile what `PeftTrainer.train` calls for each micro-batch, and write down what came of it."""
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
        started = time.monotonic()
        say("tracing")
        result = self.describe(trainer, mesh, batch)
        if self.request["compile"]:
            lowered = self.jitted_step(trainer).lower(trainer.model, trainer.optimizer, batch).lowered
            result["trace_seconds"] = round(time.monotonic() - started, 2)
            say("compiling")
            started = time.monotonic()
            try:
                compiled = lowered.compile()
            except jax.errors.JaxRuntimeError as error:
                short = out_of_memory(str(error))
                if short is None:
                    raise
                result |= {"wanted_memory": short[0], "short_of_memory": short[0] - short[1]}
            else:
                result |= measured(compiled, trainer, batch, self.request.get("dump"))
            result["compile_seconds"] = round(time.monotonic() - started, 2)
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

    def describe(self, trainer: Any, mesh: Any, batch: Any) -> dict[str, Any]:
        """What is known of the step without compiling it."""
        import jax
        from flax import nnx

        shapes = self.shapes
        rows, length = tokens_of(batch).shape
        micro_batches = trainer.config.get_with_default("gradient_accumulation_steps", 1)
        lora = nnx.state(trainer.model, nnx.LoRAParam)
        weights = nnx.state(trainer.model, nnx.filterlib.All(nnx.Param, nnx.filterlib.Not(nnx.LoRAParam)))
        own = nnx.state(trainer.optimizer, nnx.optimizer.OptState)
        return {
            "devices": len(self.devices),
            "mesh": {name: int(size) for name, size in mesh.shape.items()},
            "batch_rows": rows,
            "length": length,
            "micro_batches": micro_batches,
            "effective_rows": shapes.effective if shapes else rows * micro_batches,
            "steps": trainer.config.max_steps,
            "remat": self.remat,
            "packing": bool(shapes and shapes.packing),
            "layers": len(trainer.model.layers),
            "all_layers": self.whole.get("layers", len(trainer.model.layers)),
            "period": period(self.whole) if self.whole else 1,
            "parameters": count_of(weights),
            "trainable": count_of(lora) or count_of(weights),
            "lora_tensors": len(jax.tree.leaves(lora)),
            "model": trainer.model.porter.id,
            "family": trainer.model.porter.family.name,
            "sizes": self.whole,
            "varying": list(shapes.varying) if shapes else [],
            "state": {
                "weights": by_axes(weights),
                "adapters": by_axes(lora),
                "optimizer": by_axes(own),
            },
        }


def slice_devices(request: dict[str, Any]) -> list[Any]:
    """The slice's devices as libtpu describes them; simulated CPU devices when nothing is to be compiled."""
    import jax

    if not request["compile"]:
        return list(jax.devices()[: request["devices"]])
    from jax.experimental import topologies

    topology = request["topology"]
    described = topologies.get_topology_desc(platform="tpu", topology_name=topology["name"], **topology["arguments"])
    return list(described.devices)


def measured(compiled: Any, trainer: Any, batch: Any, dump: str | None) -> dict[str, Any]:
    """The compiler's own figures, for one device."""
    from flax import nnx

    memory, cost = compiled.memory_analysis(), compiled.cost_analysis()
    cost = cost[0] if isinstance(cost, list) else cost
    text = compiled.as_text()
    if dump:
        Path(dump).write_text(text, encoding="utf-8")
    adapters = bytes_of(nnx.state(trainer.model, nnx.LoRAParam))
    sharded = tokens_of(batch)
    rows, length = sharded.sharding.shard_shape(sharded.shape)
    tp = dict(sharded.sharding.mesh.shape).get("tp", 1)
    return {
        "memory": {
            "peak": int(memory.peak_memory_in_bytes),
            "weights": bytes_of(nnx.state(trainer.model)) - adapters,
            "adapters": adapters,
            "optimizer": bytes_of(nnx.state(trainer.optimizer, nnx.optimizer.OptState)),
            "arguments": int(memory.argument_size_in_bytes),
            "outputs": int(memory.output_size_in_bytes),
            "aliased": int(memory.alias_size_in_bytes),
            "temporary": int(memory.temp_size_in_bytes),
            "code": int(memory.generated_code_size_in_bytes),
            "logits": rows * length * -(-_vocab(trainer.model) // tp) * 4,
        },
        "flops": float(cost.get("flops", 0.0)),
        "bytes": float(cost.get("bytes accessed", 0.0)),
        "seconds": float(cost.get("optimal_seconds", 0.0)),
        "collectives": collectives(text),
    }


def tokens_of(batch: Any) -> Any:
    """The first array of a batch that is (rows, tokens): packed ones have numbers by the row, too."""
    import jax

    return next(leaf for leaf in jax.tree.leaves(batch) if len(leaf.shape) == 2)


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


@contextlib.contextmanager
def abstract_optimizer(module: Any) -> Iterator[None]:
    """Within it, `nnx.Optimizer` makes its state as shapes. `module` is Tunix's trainer, which calls it."""
    from flax import nnx

    original = nnx.Optimizer

    def make(model: Any, tx: Any, *, wrt: Any) -> Any:
        return nnx.eval_shape(lambda inner: original(inner, tx, wrt=wrt), model)

    module.nnx.Optimizer = make
    try:
        yield
    finally:
        module.nnx.Optimizer = original


def abstract(function: Callable[[Any], Any], model: Any) -> Any:
    """`function(model)` traced: a model of shapes. Static attributes pass through."""
    from flax import nnx

    return nnx.eval_shape(function, model)


def mesh_of(model: Any) -> Any:
    """The mesh that an abstract model's parameters are placed on; None for a model that is being traced."""
    import jax
    from flax import nnx

    leaves = [leaf for leaf in jax.tree.leaves(nnx.state(model)) if isinstance(leaf, jax.ShapeDtypeStruct)]
    return next((leaf.sharding.mesh for leaf in leaves if isinstance(leaf.sharding, jax.sharding.NamedSharding)), None)


def placed(module: Any, mesh: Any, dtype: Any) -> None:
    """Give every abstract variable of `module` its annotated sharding, and floating parameters `dtype` if not None."""
    import jax
    import jax.numpy as jnp
    from flax import nnx

    replicated = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    state = nnx.state(module)
    shardings = dict(nnx.to_flat_state(nnx.get_named_sharding(state, mesh)))
    flat = []
    for path, variable in nnx.to_flat_state(state):
        value = variable.get_value()
        wanted: Any = shardings.get(path)
        wanted = wanted.get_value() if hasattr(wanted, "get_value") else wanted
        if not isinstance(wanted, jax.sharding.NamedSharding) or len(wanted.spec) > len(value.shape):
            wanted = replicated
        kind = value.dtype
        if dtype is not None and jnp.issubdtype(kind, jnp.floating):
            kind = dtype
        flat.append((path, variable.replace(jax.ShapeDtypeStruct(value.shape, kind, sharding=wanted))))
    nnx.update(module, nnx.from_flat_state(flat))


def bytes_of(state: Any) -> int:
    """Bytes of a state on one device."""
    import jax

    total = 0
    for leaf in jax.tree.leaves(state):
        shape = leaf.sharding.shard_shape(leaf.shape) if getattr(leaf, "sharding", None) else leaf.shape
        size = 4 if not hasattr(leaf.dtype, "itemsize") else leaf.dtype.itemsize
        count = 1
        for length in shape:
            count *= length
        total += count * size // (2 if str(leaf.dtype) == "uint4" else 1)  # two to a byte on a TPU
    return int(total)


def by_axes(state: Any) -> dict[str, int]:
    """Bytes over the whole mesh, by the mesh axes that a leaf is sharded on ("fsdp tp", "tp", "")."""
    import jax

    found: dict[str, int] = {}
    for leaf in jax.tree.leaves(state):
        axes = " ".join(sorted(str(axis) for axis in leaf.sharding.spec if axis is not None))
        size = getattr(leaf.dtype, "itemsize", 4)
        found[axes] = found.get(axes, 0) + int(leaf.size) * size
    return found


def count_of(state: Any) -> int:
    import jax

    return int(sum(leaf.size for leaf in jax.tree.leaves(state)))


def _vocab(model: Any) -> int:
    config = model.config
    return int(getattr(config, "num_embed", 0) or getattr(config, "vocab_size", 0))


def runtime_mesh(runtime: ModuleType) -> ModuleType:
    return importlib.import_module(runtime.__name__ + ".mesh")


if __name__ == "__main__":
    sys.exit(main())
