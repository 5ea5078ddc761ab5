"""Trainings for one or several JAX processes: `python -m tests.real.host_runs MODEL OUT JOBS`.

JOBS is a list of [name, kind, fsdp, tp, across] in JSON; the losses and what else a job gives go to OUT/PROCESS.json,
what it saves to OUT/NAME.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from porter import runtime as rt
from porter.validate.preloading.client import MODULES
from porter.validate.preloading.server import preload

STEPS = 2
WORDS = "the capital of France is Paris and the sea is deep".split()
LORA = {"r": 4, "target_modules": ["q_proj", "v_proj", "up_proj"], "lora_dropout": 0.1}


def main() -> None:
    model, out, jobs = sys.argv[1:]
    preload([*MODULES["port"]])  # as validate does: with torch, which transformers imports, it takes twice as long
    import jax

    if os.environ.get("JAX_NUM_PROCESSES") == "1":  # gloo needs to be told, which a port of one process has no use for
        jax.distributed.initialize(os.environ["JAX_COORDINATOR_ADDRESS"], 1, 0)
    found = {}
    for name, kind, fsdp, tp, across in json.loads(jobs):
        mesh = a_mesh(fsdp, tp, across)
        found[name] = KINDS[kind](model, mesh, Path(out) / name)
        print(name, json.dumps(found[name])[:300], flush=True)
    Path(out, f"{jax.process_index()}.json").write_text(json.dumps(found))


def a_mesh(fsdp: int, tp: int, across: bool) -> Any:
    """A mesh of all devices; `across`: neighbours in it belong to different processes."""
    import jax
    import numpy as np

    auto = (jax.sharding.AxisType.Auto,) * 2
    if not across:
        return jax.make_mesh((fsdp, tp), ("fsdp", "tp"), axis_types=auto)
    devices = np.array(jax.devices()).reshape(jax.process_count(), -1).T.reshape(fsdp, tp)
    return jax.sharding.Mesh(devices, ("fsdp", "tp"), axis_types=auto)


def texts(count: int) -> list[dict[str, Any]]:
    return [{"text": " ".join(WORDS[i % 4 :] * (1 + i % 3))} for i in range(count)]


def pairs(count: int) -> list[dict[str, Any]]:
    words = WORDS * 2
    return [{"prompt": words[i], "chosen": " " + words[i + 1], "rejected": " " + words[i + 2]} for i in range(count)]


def tokenizer(folder: str) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def adapted(folder: str, mesh: Any) -> Any:
    return rt.apply_peft(rt.load_model(folder, mesh), LORA, mesh, seed=0)


def trained(trainer: Any, batches: Any, mesh: Any, evaluation: Any = None) -> dict[str, Any]:
    """Losses, evaluation losses and gradient norms of a run, and the rows of its micro-batches."""
    with mesh:
        trainer.train(batches, evaluation)
    logger = trainer.metrics_logger
    found = {
        name: [float(value) for value in logger.get_metric_history("", name, "train")] for name in ("loss", "grad_norm")
    }
    found["eval"] = [float(value) for value in logger.get_metric_history("", "loss", "eval")] if evaluation else []
    return {**found, "rows": batches.batch_size}


def config(batches: Any, **settings: Any) -> Any:
    from tunix.sft.peft_trainer import TrainingConfig

    own = {"eval_every_n_steps": 1, "max_steps": batches.steps, "gradient_accumulation_steps": batches.accumulation}
    return TrainingConfig(**{**own, **settings})


def sft(folder: str, mesh: Any, out: Path, full: bool = False, **settings: Any) -> dict[str, Any]:
    import optax
    from tunix.sft.peft_trainer import PeftTrainer

    model = rt.load_model(folder, mesh) if full else adapted(folder, mesh)
    own: dict[str, Any] = {"max_steps": STEPS, "batch_size": 3, "accumulation": 2, "max_length": 256}
    batches = rt.SFTBatches(texts(20), tokenizer(folder), mesh, **{**own, **settings})
    trainer = PeftTrainer(model, optax.adamw(1e-2), config(batches))
    trainer = trainer.with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
    found = trained(trainer, batches, mesh, batches.evaluation(texts(5)))
    rt.save_model(model, out)
    return found


def collated(folder: str, mesh: Any, out: Path) -> dict[str, Any]:
    import optax
    from tunix.sft.peft_trainer import PeftTrainer

    own = tokenizer(folder)
    rows = [{"input_ids": own(row["text"])["input_ids"]} for row in texts(12)]

    def collate(features: list[Any]) -> dict[str, Any]:
        longest = max(len(row["input_ids"]) for row in features)
        ids = [row["input_ids"] + [0] * (longest - len(row["input_ids"])) for row in features]
        return {"input_ids": ids, "labels": [[i or -100 for i in row] for row in ids]}

    batches = rt.TrainerBatches(rows, collate, mesh, max_steps=STEPS, batch_size=4, accumulation=1)
    trainer = PeftTrainer(adapted(folder, mesh), optax.adamw(1e-2), config(batches))
    trainer = trainer.with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
    return trained(trainer, batches, mesh, batches.evaluation(rows[:5]))


def dpo(folder: str, mesh: Any, out: Path, evaluated: bool = False) -> dict[str, Any]:
    import optax

    model = adapted(folder, mesh)
    batches = rt.PreferenceBatches(pairs(8), tokenizer(folder), mesh, max_steps=STEPS, batch_size=3, accumulation=2)
    trainer = rt.PreferenceTrainer(model, optax.adamw(1e-2), config(batches), loss=rt.dpo_loss(beta=0.1))
    found = trained(trainer, batches, mesh, batches.evaluation(pairs(5)) if evaluated else None)
    rt.save_adapter(model, out)
    return found


def kto(folder: str, mesh: Any, out: Path) -> dict[str, Any]:
    import optax

    rows = [{"prompt": p["prompt"], "completion": p["chosen"], "label": i % 2 == 0} for i, p in enumerate(pairs(8))]
    batches = rt.KTOBatches(rows, tokenizer(folder), mesh, max_steps=STEPS, batch_size=4)
    trainer = rt.PreferenceTrainer(adapted(folder, mesh), optax.adamw(1e-2), config(batches), loss=rt.kto_loss())
    return trained(trainer, batches, mesh)


def grpo(folder: str, mesh: Any, out: Path, leave_one_out: bool = False, reference: bool = False) -> dict[str, Any]:
    """With a reward function that has its own random numbers, and counts the rows that it is called for."""
    import numpy as np
    import optax
    from tunix.sft.peft_trainer import PeftTrainer

    model = adapted(folder, mesh)
    called, random = [0], np.random.default_rng()

    def reward(completions: list[str], **columns: Any) -> list[float]:
        called[0] += len(completions)
        columns["log_metric"]("seen", len(completions))
        return [len(text) % 7 + 1e-9 * float(random.random()) for text in completions]

    prompts = [{"prompt": " ".join(WORDS[: 1 + i % 3])} for i in range(8)]
    settings: dict[str, Any] = {
        "reward_funcs": reward, "max_steps": STEPS, "batch_size": 4, "accumulation": 2, "num_generations": 2,
        "max_completion_length": 8,
    }  # fmt: skip
    if leave_one_out:
        batches = rt.RLOOBatches(prompts, tokenizer(folder), mesh, model, **settings)
    else:
        settings |= {"num_iterations": 2, "loss": rt.PolicyLoss(beta=0.04)} if reference else {}
        batches = rt.GRPOBatches(prompts, tokenizer(folder), mesh, model, **settings)
    trainer = PeftTrainer(model, optax.adamw(1e-3), config(batches)).with_gen_model_input_fn(rt.model_inputs)
    found = trained(trainer.with_loss_fn(batches.loss), batches, mesh)
    rt.save_adapter(model, out)
    return {**found, "rewarded": called[0], "metrics": batches.metrics(0, STEPS)}


def gkd(folder: str, mesh: Any, out: Path) -> dict[str, Any]:
    import optax

    model, teacher = adapted(folder, mesh), rt.load_model(folder, mesh)
    rows = [
        {"messages": [{"role": "user", "content": WORDS[i]}, {"role": "assistant", "content": WORDS[i + 1]}]}
        for i in range(8)
    ]
    batches = rt.GKDBatches(
        rows, tokenizer(folder), mesh, model=model, lmbda=1.0, max_new_tokens=8, max_steps=STEPS, batch_size=4
    )
    trainer = rt.DistillationTrainer(model, optax.adamw(0.3), config(batches), teacher_model=teacher)
    return trained(trainer, batches, mesh)


def generated(folder: str, mesh: Any, out: Path) -> dict[str, Any]:
    import jax
    import numpy as np

    model, own = adapted(folder, mesh), tokenizer(folder)
    own.padding_side = "left"
    inputs = own(["the capital", "of"], return_tensors="np", padding=True)
    tokens = rt.generate(model, **inputs, max_new_tokens=6, do_sample=True, seed=3)
    np.random.seed(jax.process_index())
    drawn = rt.generate(model, **inputs, max_new_tokens=6, do_sample=True)  # a seed that each process draws alone
    pipe = rt.TextGenerationPipeline(model, own, max_new_tokens=4, do_sample=False)
    return {"tokens": tokens.tolist(), "drawn": drawn.tolist(), "said": pipe("the sea")}


def stopped(folder: str, mesh: Any, out: Path) -> dict[str, Any]:
    """A whole run of twelve steps, and one whose last process gets SIGTERM after the first step."""
    whole = twelve_steps(folder, mesh, rt.fresh_dir(out / "whole"))
    status = ended(folder, mesh, rt.fresh_dir(out / "stopped"))
    last = int(Path(rt.get_last_checkpoint(out / "stopped") or "0").name)
    return {"status": status, "early": last < 12, "whole": whole[last:]}


def stopped_unsaved(folder: str, mesh: Any, out: Path) -> dict[str, Any]:
    """A run without checkpoints that gets it."""
    return {"status": ended(folder, mesh, None)}


def ended(folder: str, mesh: Any, root: str | None) -> int:
    """The exit status of a run whose last process gets SIGTERM after the first step; 0 where it goes on to its end."""
    import jax

    from porter.runtime.callbacks import TrainerCallback

    class Stops(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 1 and jax.process_index() == jax.process_count() - 1:
                os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)  # JAX looks for it once a second

    try:
        twelve_steps(folder, mesh, root, Stops)
    except SystemExit as leaving:
        return int(str(leaving.code))
    return 0


def killed(folder: str, mesh: Any, out: Path) -> dict[str, Any]:
    """A whole run, and one whose first process is killed as soon as there is a checkpoint."""
    import jax

    from porter.runtime.callbacks import TrainerCallback

    class Dies(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            while jax.process_index() == 0 and state.global_step == 3:
                if rt.get_last_checkpoint(out / "killed"):
                    os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(0.1)

    twelve_steps(folder, mesh, rt.fresh_dir(out / "whole"), steps=6)
    twelve_steps(folder, mesh, rt.fresh_dir(out / "killed"), Dies, steps=6)
    return {}


def resumed(folder: str, mesh: Any, out: Path) -> dict[str, Any]:
    """What `stopped` had left to do, in other processes."""
    return {"rest": twelve_steps(folder, mesh, rt.resume_dir(out.parent / "stopped" / "stopped"))}


def resumed_killed(folder: str, mesh: Any, out: Path) -> dict[str, Any]:
    """What `killed` had left to do."""
    return {"rest": twelve_steps(folder, mesh, rt.resume_dir(out.parent / "killed" / "killed"), steps=6)}


def twelve_steps(folder: str, mesh: Any, root: str | None, *callbacks: Any, steps: int = 12) -> list[float]:
    import optax
    from tunix.sft.peft_trainer import PeftTrainer

    batches = rt.SFTBatches(texts(20), tokenizer(folder), mesh, max_steps=steps, batch_size=4)
    model = rt.apply_peft(rt.load_model(folder, mesh), {**LORA, "lora_dropout": 0.0}, mesh, seed=0)
    trainer = PeftTrainer(model, optax.adamw(1e-2), config(batches, checkpoint_root_directory=root))
    trainer = trainer.with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
    hooks = rt.log_every(1, callbacks=callbacks)
    trainer.with_training_hooks(hooks)
    with mesh:
        trainer.train(batches)
    return [line["loss"] for line in hooks.history if "loss" in line]


def recorded(folder: str, mesh: Any, out: Path) -> dict[str, Any]:
    """The printed losses of a run that keeps its record beside its checkpoints: out/trainer_state.json."""
    import optax
    from tunix.sft.peft_trainer import PeftTrainer

    batches = rt.SFTBatches(texts(20), tokenizer(folder), mesh, max_steps=STEPS, batch_size=3, accumulation=2)
    rate = optax.linear_schedule(1e-2, 0.0, STEPS)
    settings = config(batches, checkpoint_root_directory=rt.fresh_dir(out))
    trainer = PeftTrainer(adapted(folder, mesh), optax.adamw(rate), settings)
    trainer = trainer.with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
    hooks = rt.log_every(1, schedule=rate, steps_per_epoch=batches.steps_per_epoch, output_dir=out)
    trainer.with_training_hooks(hooks)
    with mesh:
        trainer.train(batches)
    return {"loss": [line["loss"] for line in hooks.history if "loss" in line]}


def measured(folder: str, mesh: Any, out: Path, traced: bool = True) -> dict[str, Any]:
    """With a metric of the predictions; `traced`: what makes them of the logits can be jitted."""
    import jax.numpy as jnp
    import numpy as np
    import optax

    def likeliest(logits: Any, labels: Any) -> Any:
        return logits.argmax(axis=-1) if traced else jnp.asarray(np.asarray(logits).argmax(axis=-1))

    def compute(prediction: Any) -> dict[str, float]:
        right = prediction.predictions[:, :-1] == prediction.label_ids[:, 1:]
        return {"right": float(right.mean()), "rows": float(len(right))}

    batches = rt.SFTBatches(texts(12), tokenizer(folder), mesh, max_steps=STEPS, batch_size=4)
    trainer = rt.MetricsTrainer(
        adapted(folder, mesh),
        optax.adamw(1e-2),
        config(batches),
        compute_metrics=compute,
        preprocess_logits_for_metrics=likeliest,
    )
    trainer = trainer.with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
    found = trained(trainer, batches, mesh, batches.evaluation(texts(5)))
    return {**found, "evaluated": trainer.evaluated}


def kept(folder: str, mesh: Any, out: Path) -> dict[str, Any]:
    """A loop that keeps its epochs, with an evaluation of its own behind each."""
    import optax
    from tunix.sft.peft_trainer import PeftTrainer

    own = tokenizer(folder)
    rows = [{"input_ids": own(row["text"])["input_ids"]} for row in texts(9)]

    def collate(features: list[Any]) -> dict[str, Any]:
        longest = max(len(row["input_ids"]) for row in features)
        ids = [row["input_ids"] + [0] * (longest - len(row["input_ids"])) for row in features]
        return {"input_ids": ids, "labels": [[i or -100 for i in row] for row in ids]}

    batches = rt.TrainerBatches(rows, collate, mesh, epochs=2, batch_size=2, accumulation=2, mean_over="micro_batch")
    trainer = PeftTrainer(adapted(folder, mesh), optax.adamw(1e-2), config(batches))
    trainer = trainer.with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
    losses = rt.EvaluationLosses(trainer, batches.evaluation(rows[:5], batch_size=2))
    found: dict[str, Any] = {"loss": [], "eval": [], "batches": len(losses)}
    for _ in range(2):
        with mesh:
            found["loss"].append([float(loss) for loss in rt.train_epoch(trainer, batches)])
        found["eval"].append(list(losses))
    trainer.close()
    return found


def merged(folder: str, mesh: Any, out: Path) -> dict[str, Any]:
    """A quantised base with trained adapters: what it says of rows and samples, and its weights with them merged in."""
    import optax
    from tunix.sft.peft_trainer import PeftTrainer

    model = rt.apply_peft(rt.load_model(folder, mesh, quantization="nf4"), LORA, mesh, seed=0)
    own = tokenizer(folder)
    batches = rt.SFTBatches(texts(12), own, mesh, max_steps=STEPS, batch_size=4)
    trainer = PeftTrainer(model, optax.adamw(1e-2), config(batches))
    trainer = trainer.with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
    found = trained(trainer, batches, mesh)
    inputs = own(["the capital", "of"], return_tensors="np", padding=True)
    said = rt.causal_lm_output(model, **inputs, labels=inputs["input_ids"])
    rt.merge_and_unload(model).save_pretrained(out)
    return {**found, "said": float(said.loss)}


KINDS: dict[str, Any] = {
    "kept": kept,
    "merged": merged,
    "measured": measured,
    "measured_untraced": lambda *job: measured(*job, traced=False),
    "stopped": stopped,
    "stopped_unsaved": stopped_unsaved,
    "killed": killed,
    "resumed": resumed,
    "resumed_killed": resumed_killed,
    "recorded": recorded,
    "sft": sft,
    "full": lambda *job: sft(*job, full=True),
    "packing": lambda *job: sft(*job, packing=True, max_length=128),
    "buckets": lambda *job: sft(*job, buckets=[128]),
    "step_packing": lambda *job: sft(*job, step_packing=[(4, 128), (4, 256)]),
    "neftune": lambda *job: sft(*job, neftune_noise_alpha=5.0),
    "collated": collated,
    "dpo": dpo,
    "dpo_evaluated": lambda *job: dpo(*job, evaluated=True),
    "kto": kto,
    "grpo": grpo,
    "grpo_reference": lambda *job: grpo(*job, reference=True),
    "rloo": lambda *job: grpo(*job, leave_one_out=True),
    "gkd": gkd,
    "generated": generated,
}

if __name__ == "__main__":
    main()
