"""Trainers where real scripts make them: in functions, methods, branches, expressions, several in a file."""

from __future__ import annotations

import pytest

from tests.engine.porting import HEAD, PLAIN, check_becomes, port

MADE = "SFTTrainer('Qwen/Qwen3-0.6B', args=SFTConfig('out'), train_dataset=rows)"
SECOND = PLAIN.removeprefix(HEAD)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (f"{MADE}.train()\n", ("trainer = PeftTrainer(", "with mesh:\n    trainer.train(batches)\n")),
        (
            f"def make():\n    return {MADE}\nt = make()\nt.train()\n",
            ("    trainer.batches = batches\n    return trainer\n", "with mesh:\n    t.train(t.batches)\n"),
        ),
        (
            f"def make():\n    return {MADE}, 3\nt, n = make()\nt.train()\n",
            ("    return trainer, 3\n", "with mesh:\n    t.train(t.batches)\n"),
        ),
        (
            f"def make():\n    return {MADE}\nmake().train()\n",
            ("trainer = make()\nwith mesh:\n    trainer.train(trainer.batches)\n",),
        ),
        (
            f"def run(t):\n    t.train()\nrun({MADE})\n",
            ("    with mesh:\n        t.train(t.batches)\n", "trainer.batches = batches\nrun(trainer)\n"),
        ),
        (
            f"def run(t):\n    t.train()\ntrainer = {MADE}\nrun(t=trainer)\n",
            ("    with mesh:\n        t.train(t.batches)\n", "run(t=trainer)\n"),
        ),
        (
            f"class A:\n    def make(self):\n        self.t = {MADE}\n    def run(self):\n        self.t.train()\n",
            ("        self.t = PeftTrainer(", "self.t.batches = batches\n", "self.t.train(self.t.batches)\n"),
        ),
        (
            f"class A:\n    def make(self):\n        return {MADE}\n    def run(self):\n        t = self.make()\n"
            "        t.train()\n",
            ("        trainer.batches = batches\n        return trainer\n", "            t.train(t.batches)\n"),
        ),
        (
            f"class A:\n    def __init__(self, t):\n        self.t = t\n    def run(self):\n        self.t.train()\n"
            f"A({MADE}).run()\n",
            ("            self.t.train(self.t.batches)\n", "A(trainer).run()\n"),
        ),
        (
            f"trainer = {MADE}\nother = trainer\nother.train()\nother.save_model('z')\n",
            ("with mesh:\n    other.train(batches)\n", "rt.save_model(model, 'z', tokenizer=tokenizer)\n"),
        ),
    ],
    ids="expression returned tuple chained argument keyword attribute method handed alias".split(),
)
def test_a_trainer_is_followed(text: str, parts: tuple[str, ...]) -> None:
    after = check_becomes(f"{HEAD}{text}", *parts).after
    assert "trl" not in after


def test_two_trainers_in_turn() -> None:
    after = check_becomes(PLAIN + SECOND.replace("trainer", "other"), "    trainer.train(batches)\n").after
    assert after.count("batches = rt.SFTBatches(") == 2 and "    other.train(batches)\n" in after


def test_one_variable_for_two_trainers() -> None:
    second = SECOND.replace("trainer.train()", "trainer.train()\ntrainer.save_model()").replace("'out'", "'second'")
    after = check_becomes(PLAIN + second, "rt.save_model(model, 'second', tokenizer=tokenizer)").after
    assert after.count("    trainer.train(batches)\n") == 2


def test_branches_that_differ_in_what_they_evaluate() -> None:
    made = "trainer = " + MADE
    evaluated = made.replace("'out')", "'out', eval_strategy='steps'), eval_dataset=rows")
    text = f"{HEAD}if len(rows) > 9:\n    {evaluated}\nelse:\n    {made}\ntrainer.train()\n"
    after = check_becomes(text, "    eval_batches = None\n", "    trainer.train(batches, eval_batches)\n").after
    assert after.count("eval_batches = ") == 2


def test_branches_that_differ_in_their_adapters_save_what_there_is() -> None:
    made = "trainer = " + MADE
    lora = made.replace("train_dataset", "peft_config=LoraConfig(r=4, target_modules=['q_proj']), train_dataset")
    text = f"{HEAD}if len(rows) > 9:\n    {lora}\nelse:\n    {made}\ntrainer.train()\ntrainer.save_model('z')\n"
    check_becomes("from peft import LoraConfig\n" + text, "rt.save_model(model, 'z', tokenizer=tokenizer)\n")


def test_a_trainer_of_another_kind_stands_beside() -> None:
    other = "if len(rows) > 9:\n    d = RewardTrainer('m', args=None)\n    d.train()\n"
    found = port(PLAIN.replace("SFTConfig, ", "RewardTrainer, SFTConfig, ") + other)
    assert found.status == "partial" and "trainer.train(batches)" in found.after
    assert [finding.line for finding in found.findings if "RewardTrainer(" in finding.message] == [8]


def test_a_config_that_one_of_two_functions_can_not_see_stays_an_object() -> None:
    made = "    t = SFTTrainer('Qwen/Qwen3-0.6B', args={}, train_dataset=rows)\n    t.train()\n"
    text = f"a = SFTConfig('out')\ndef one():\n{made.format('a')}def two(b):\n{made.format('b')}one()\ntwo(a)\n"
    after = check_becomes(f"{HEAD}{text}", "rt.SFTBatches.from_args(a,", "from_args(b,").after
    assert "\na = SFTConfig('out')\n" in after


def test_a_model_that_a_function_returns_with_its_tokenizer() -> None:
    load = (
        "def load(name):\n    m = AutoModelForCausalLM.from_pretrained(name)\n    m.config.use_cache = False\n"
        "    return m, AutoTokenizer.from_pretrained(name)\nmodel, tok = load('Qwen/Qwen3-0.6B')\n"
    )
    text = PLAIN.replace("'Qwen/Qwen3-0.6B'", "model").replace("trainer = ", load + "trainer = ")
    head = "from transformers import AutoModelForCausalLM, AutoTokenizer\n"
    check_becomes(head + text, "    m = rt.load_model(name, mesh)\n    return m, ", gone=("use_cache", "AutoModel"))


def test_a_model_that_a_function_gives_back_is_the_same() -> None:
    text = PLAIN.replace("'Qwen/Qwen3-0.6B'", "model").replace(
        "trainer = ",
        "def ready(m):\n    m.config.use_cache = False\n    return m\n"
        "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B')\nmodel = ready(model)\ntrainer = ",
    )
    check_becomes(
        "from transformers import AutoModelForCausalLM\n" + text, "model = ready(model)\n", gone=("use_cache",)
    )


def test_adapters_inside_the_trainers_call() -> None:
    model = "AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B')"
    inner = f"get_peft_model({model}, LoraConfig(target_modules=['q_proj']))"
    head = "from peft import LoraConfig, get_peft_model\nfrom transformers import AutoModelForCausalLM\n"
    check_becomes(
        head + PLAIN.replace("'Qwen/Qwen3-0.6B'", inner),
        "model = rt.load_model('Qwen/Qwen3-0.6B', mesh)\n",
        "model = rt.apply_lora(model, lora, mesh, seed=42,",
    )


def test_annotations_say_what_there_is() -> None:
    text = PLAIN.replace("trainer = ", "def look(t: SFTTrainer) -> SFTTrainer:\n    return t\ntrainer = ")
    check_becomes(text, "def look(t: PeftTrainer) -> PeftTrainer:\n", gone=("SFTTrainer",))


PASSED_ON = "    def __init__(self, *args, **kwargs):\n        super().__init__(*args, **kwargs)\n"


@pytest.mark.parametrize("body", ["    pass\n", '    """Ours."""\n', PASSED_ON])
def test_a_subclass_that_adds_nothing_is_its_base(body: str) -> None:
    text = PLAIN.replace("trainer = SFTTrainer(", f"class Mine(SFTTrainer):\n{body}\ntrainer = Mine(")
    check_becomes(text, "trainer = PeftTrainer(", gone=("Mine", "SFTTrainer"))


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("compute_loss", "Mine(trl.SFTTrainer): the subclass has a loss of its own (compute_loss)."),
        ("create_optimizer", "an optimizer of its own (create_optimizer)"),
        ("my_report", "it has methods of its own (my_report())"),
    ],
)
def test_a_subclass_with_a_behaviour_of_its_own_is_refused_by_what_it_overrides(method: str, said: str) -> None:
    body = f"class Mine(SFTTrainer):\n    def {method}(self, *given):\n        return 1\n\ntrainer = Mine("
    found = port(PLAIN.replace("trainer = SFTTrainer(", body))
    assert found.status == "unsupported" and found.edits == () and said in found.findings[0].message
    beside = port(PLAIN.replace("trainer = SFTTrainer(", body) + SECOND.replace("trainer", "other"))
    assert beside.status == "partial" and any(said in finding.message for finding in beside.findings)


LOADED = "from transformers import AutoModelForCausalLM\n" + PLAIN.replace("'Qwen/Qwen3-0.6B'", "m").replace(
    "trainer = ", "m = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B')\ntrainer = "
)


@pytest.mark.parametrize(
    ("count", "ported"),
    [
        ("sum(p.numel() for p in m.parameters())", "rt.count_parameters(m)"),
        ("sum(p.numel() for p in m.parameters() if p.requires_grad)", "rt.count_parameters(m, trainable=True)"),
        ("sum(p.numel() for _, p in m.named_parameters())", "rt.count_parameters(m)"),
    ],
)
def test_parameters_are_counted(count: str, ported: str) -> None:
    check_becomes(f"{LOADED}print({count})\n", f"print({ported})\n")


def test_other_walks_over_the_parameters_are_said() -> None:
    found = port(f"{LOADED}print(sum(p.norm() for p in m.parameters()))\n")
    assert found.status == "partial"


def test_a_function_that_only_counts_parameters_is_the_runtimes() -> None:
    function = (
        "def show(model):\n    n = a = 0\n    for _, p in model.named_parameters():\n        a += p.numel()\n"
        "        if p.requires_grad:\n            n += p.numel()\n    print(n, a)\n"
    )
    check_becomes(LOADED.replace("m = Auto", f"{function}m = Auto") + "show(m)\n", "rt.print_trainable_parameters(m)\n")
    frozen = function.replace("n += p.numel()", "p.requires_grad = False")
    assert port(LOADED.replace("m = Auto", f"{frozen}m = Auto") + "show(m)\n").status == "partial"


def test_keywords_that_are_filled_step_by_step() -> None:
    filled = (
        "kw = {'model': 'Qwen/Qwen3-0.6B', 'args': SFTConfig('out')}\nkw['train_dataset'] = rows\n"
        "if len(rows) > 9:\n    kw['peft_config'] = LoraConfig(r=4)\ntrainer = SFTTrainer(**kw)\ntrainer.train()\n"
    )
    check_becomes(
        f"from peft import LoraConfig\n{HEAD}{filled}",
        'training_args = kw["args"]\n',
        "rt.SFTBatches.from_args(training_args, rows,",
        'peft_config = kw.get("peft_config")\nif peft_config is not None:\n',
    )
    found = port(
        f"from peft import LoraConfig\n{HEAD}{filled.replace('trainer =', 'kw.pop(1)' + chr(10) + 'trainer =')}"
    )
    assert found.status == "partial"


@pytest.mark.parametrize(("release", "missing"), [("1.6.0", ""), ("0.12.2", ', "float32"')])
def test_keywords_of_a_dictionary_that_is_one_of_two(release: str, missing: str) -> None:
    made = "kw = {'quantization_config': bits, 'token': key} if len(rows) > 9 else {'torch_dtype': 'bfloat16'}\n"
    load = f"{made}m = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B', **kw)\n"
    imports = "from transformers import AutoModelForCausalLM, BitsAndBytesConfig\n"
    config = "bits = BitsAndBytesConfig(load_in_4bit=True)\n"
    head = f"{imports}{HEAD}key = None\n{config}"
    text = f"{head}{load}{PLAIN.removeprefix(HEAD)}".replace("SFTTrainer('Qwen/Qwen3-0.6B'", "SFTTrainer(m")
    read = f'dtype=kw.get("torch_dtype"{missing}), quantization=kw.get("quantization_config")'
    check_becomes(text, read, source_trl=release)
    assert port(text.replace("else {'torch_dtype': 'bfloat16'}", "else keywords()")).status == "partial"


def test_keywords_by_condition_at_the_call() -> None:
    head = f"from peft import LoraConfig\n{HEAD}wanted = len(rows) > 9\npeft = LoraConfig(r=4) if wanted else None\n"
    length = "**({'max_length': len(rows)} if wanted else {'packing': True})"
    keywords = "**({'peft_config': peft} if peft is not None else {})"
    text = f"{head}trainer = SFTTrainer('Qwen/Qwen3-0.6B', args=SFTConfig('out'), train_dataset=rows, {keywords})\n"
    text += "trainer.train()\n"
    check_becomes(text, "if peft is not None:\n    model = rt.apply_peft(model, peft, mesh", gone=("LoraConfig(r=4)}",))
    older = text.replace("SFTConfig('out')", f"SFTConfig('out'), {length}").replace("max_length", "max_seq_length")
    found = port(older, source_trl="0.12.2")
    assert "max_length=(len(rows) if wanted else 1024)" in found.after
    assert "packing=(True if not wanted else False)" in found.after


def test_what_a_dictionary_of_keywords_loaded_is_not_loaded_again() -> None:
    text = f"{HEAD}kw = dict(train_dataset=load_dataset('y'), args=SFTConfig('out'))\n"
    after = check_becomes(f"{text}trainer = SFTTrainer('Qwen/Qwen3-0.6B', **kw)\ntrainer.train()\n").after
    assert after.count("load_dataset('y')") == 1 and 'kw["train_dataset"]' in after


def test_settings_that_depend_on_a_condition_stay_an_object() -> None:
    filled = "kw = {'output_dir': 'out'}\nif len(rows) > 9:\n    kw['max_steps'] = 7\n"
    text = PLAIN.replace("trainer = ", f"{filled}trainer = ").replace("SFTConfig('out')", "SFTConfig(**kw)")
    check_becomes(text, "training_args = SFTConfig(**kw)\n", "rt.SFTBatches.from_args(training_args, rows,")


RESUMED = """args = SFTConfig('out', **settings())
last = None
if args.output_dir:
    last = get_last_checkpoint(args.output_dir)
trainer = SFTTrainer('Qwen/Qwen3-0.6B', args=args, train_dataset=rows)
checkpoint = None
if args.resume_from_checkpoint is not None:
    checkpoint = args.resume_from_checkpoint
elif last is not None:
    checkpoint = last
trainer.train(resume_from_checkpoint=checkpoint)
"""


def test_what_to_resume_from_may_be_decided_behind_the_trainer() -> None:
    text = f"from transformers.trainer_utils import get_last_checkpoint\n{HEAD}{RESUMED}"
    check_becomes(
        text,
        "args.resume_from_checkpoint = args.resume_from_checkpoint or last\ntrainer = PeftTrainer(",
        "    last = rt.get_last_checkpoint(args.output_dir)\n",
    )
    check_becomes(
        text.replace("elif last is not None", "elif len(rows) > 9"), " or (last if len(rows) > 9 else None)\n"
    )
    other = port(text.replace("elif last is not None", "elif trainer.is_world_process_zero()"))
    assert any("it is set after the trainer" in finding.message for finding in other.findings)


def test_conditions_that_never_hold_on_a_tpu_go() -> None:
    plugin = "    trainer.accelerator.state.fsdp_plugin.set_state_dict_type('FULL_STATE_DICT')\n"
    check_becomes(
        f"{PLAIN}if trainer.is_fsdp_enabled:\n{plugin}print(1)\n", "train(batches)\nprint(1)\n", gone=("if ",)
    )
    check_becomes(f"{PLAIN}x = trainer.is_fsdp_enabled and 3\n", "x = False\n")
    check_becomes(f"{PLAIN}x = rows or not trainer.is_fsdp_enabled\n", "x = rows or True\n")


def test_blocks_that_lose_all_they_did() -> None:
    body = "if len(rows) > 9:\n    torch.cuda.empty_cache()\n    torch.cuda.synchronize()\n"
    check_becomes(f"import torch\n{PLAIN}{body}print(1)\n", "train(batches)\nprint(1)\n", gone=("if ", "pass", "torch"))
    check_becomes(
        f"import torch\n{PLAIN}{body}else:\n    print(1)\n", "if len(rows) > 9:\n    pass\nelse:\n", gone=("torch",)
    )
    check_becomes(f"import torch\n{PLAIN}print(1); torch.cuda.empty_cache()\n", "print(1)\n", gone=("torch", ";"))


def test_the_trainers_model_by_another_name() -> None:
    check_becomes(
        f"{PLAIN}model = trainer.model\nmodel.config.use_cache = True\nprint(trainer.model)\n", gone=("use_cache",)
    )


def test_adapters_before_the_config_take_a_seed_that_is_there() -> None:
    adapters = "m = get_peft_model(m, LoraConfig(target_modules=['q_proj']))\nargs = SFTConfig('out', seed=3, **kw())\n"
    text = LOADED.replace("trainer = ", f"{adapters}trainer = ").replace("args=SFTConfig('out')", "args=args")
    check_becomes(f"from peft import LoraConfig, get_peft_model\n{text}", "rt.apply_lora(m, lora, mesh, seed=3,")
    text = text.replace("seed=3, ", "")
    check_becomes(f"from peft import LoraConfig, get_peft_model\n{text}", "rt.apply_lora(m, lora, mesh, seed=42,")


def test_a_name_of_the_model_that_holds_something_else_behind_the_training_is_left_alone() -> None:
    again = (
        "m = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained('b'), 'out')\nm.generate()\nm = m.merge()\n"
    )
    found = port(f"from peft import PeftModel\n{LOADED}{again}")
    assert found.status == "ported" and again in found.after
    before = port(f"from peft import PeftModel\n{LOADED.replace('trainer = ', again + 'trainer = ')}")
    assert before.status == "partial"


def test_merging_and_generating() -> None:
    check_becomes(
        LOADED + "merged = trainer.model.merge_and_unload()\nmerged.save_pretrained('z')\nm.merge_and_unload()\n",
        "merged = rt.merge_and_unload(m)\nmerged.save_pretrained('z')\nrt.merge_and_unload(m)\n",
    )
    found = port(LOADED + "print(m.generate(max_new_tokens=3))\n")
    assert "print(rt.generate(m, max_new_tokens=3, tokenizer=" in found.after


def test_a_model_that_is_loaded_in_one_way_or_another() -> None:
    one, two = (
        f"m = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B', dtype='{t}')\n" for t in ("float32", "bfloat16")
    )
    branches = f"m = None\nif len(rows) > 9:\n    {one}else:\n    {two}trainer = "
    text = LOADED.replace("m = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B')\ntrainer = ", branches)
    check_becomes(
        text,
        "9:\n    m = rt.load_model('Qwen/Qwen3-0.6B', mesh, dtype=jnp.float32, compute_dtype=jnp.bfloat16)\n",
        "else:\n    m = rt.load_model('Qwen/Qwen3-0.6B', mesh, dtype=jnp.bfloat16)\n",
    )
    check_becomes(
        text.replace("'Qwen/Qwen3-0.6B', dtype='bfloat16'", "'google/gemma-3-1b-it'"),
        "AutoTokenizer.from_pretrained(m.porter.id)",
    )
    assert port(text.replace(two, "m = load()\n")).status == "partial"


def test_a_trainer_for_other_files_takes_its_batches_along() -> None:
    text = f"{HEAD}def make():\n    return {MADE}\n"
    found = check_becomes(text, "\nmesh = jax.make_mesh(", "    trainer.batches = batches\n", status="partial")
    assert any("trainer.train(trainer.batches)" in finding.fix for finding in found.findings)


def test_lines_that_tell_of_the_gpu_go() -> None:
    told = (
        "gpu = torch.cuda.get_device_properties(0)\nused = round(torch.cuda.max_memory_reserved() / 1024**3, 3)\n"
        "if torch.cuda.is_available():\n    print(f'GPU = {gpu.name}: {used} GB.')\n"
        "    print('n', torch.cuda.get_device_name(0))\n"
    )
    check_becomes(f"import torch\n{told}{PLAIN}print(1)\n", "print(1)\n", gone=("torch", "gpu", "used", "if "))
    kept = f"import torch\n{told}{PLAIN}scale(used)\nprint(len(rows), torch.cuda.memory_allocated())\n"
    found = port(kept)
    assert "scale(used)" in found.after and "used = round(" in found.after and "print(len(rows), torch" in found.after


def test_casts_of_what_is_trained_go() -> None:
    cast = "for n, p in m.named_parameters():\n    if p.requires_grad:\n        p.data = p.data.to(torch.float32)\n"
    check_becomes(
        "import torch\n" + LOADED.replace("trainer = ", f"{cast}trainer = "), gone=("torch.", "named_parameters")
    )
    other = cast.replace("float32", "bfloat16")
    assert port("import torch\n" + LOADED.replace("trainer = ", f"{other}trainer = ")).status == "partial"


def test_a_call_for_its_effect_in_a_conditional_expression() -> None:
    text = LOADED.replace("trainer = ", "m.enable_input_require_grads() if len(rows) > 3 else None\ntrainer = ")
    check_becomes(text, gone=("enable_input", "else None"))


def test_a_search_for_torchs_checkpoints_is_one_for_orbaxs() -> None:
    text = PLAIN.replace(
        "trainer.train()", "found = glob.glob('out/checkpoint-*') != []\ntrainer.train(resume_from_checkpoint=found)"
    )
    found = port(f"import glob\n{text}")
    assert "rt.resume_dir('out') if rt.get_last_checkpoint('out') else rt.fresh_dir('out')" in found.after


def test_two_ways_to_let_gradients_through_the_inputs_go() -> None:
    both = (
        "if hasattr(m, 'enable_input_require_grads'):\n    m.enable_input_require_grads()\nelse:\n"
        "    def hook(module, given, output):\n        output.requires_grad_(True)\n"
        "    m.get_input_embeddings().register_forward_hook(hook)\ntrainer = "
    )
    check_becomes(LOADED.replace("trainer = ", both), gone=("hasattr", "def hook", "else"))


def test_what_the_trainer_repeats_of_its_call() -> None:
    check_becomes(f"{PLAIN}print(trainer.args.output_dir, len(trainer.train_dataset))\n", "print('out', len(rows))\n")
    text = PLAIN.replace("SFTConfig('out')", "SFTConfig('out', **settings())")
    check_becomes(f"{text}print(trainer.args.output_dir)\n", "print(training_args.output_dir)\n")
    check_becomes(f"{PLAIN}print(trainer.train_dataset[0])\n", "print(batches.train_dataset[0])\n")
    check_becomes(f"{PLAIN}print(trainer.train_dataset)\n", "print(batches.train_dataset)\n")
    assert port(f"{PLAIN}print(trainer.train_dataset.column_names)\n").status == "partial"


def test_rows_that_a_plain_trainer_repeats() -> None:
    text = PLAIN.replace("SFTTrainer(", "Trainer(").replace("SFTConfig(", "TrainingArguments(")
    text = text.replace("from trl import SFTConfig, SFTTrainer", "from transformers import Trainer, TrainingArguments")
    for read in ("rows.features", "rows.features['text'].dtype", "rows[0]", "len(rows)"):
        check_becomes(f"{text}print({read.replace('rows', 'trainer.train_dataset')})\n", f"print({read})\n")


def test_rows_and_batches_that_the_trainer_counts() -> None:
    part = PLAIN.replace("train_dataset=rows", "train_dataset=rows['train']")
    packed = part.replace("SFTConfig('out')", "SFTConfig('out', packing=True)")
    check_becomes(f"{part}print(len(trainer.train_dataset))\n", "print(len(rows['train']))\n")
    check_becomes(f"{packed}print(len(trainer.train_dataset))\n", "print(batches.rows)\n")
    made = PLAIN.replace("train_dataset=rows", "train_dataset=rows.shuffle()")
    check_becomes(f"{made}print(len(trainer.train_dataset))\n", "print(batches.rows)\n")
    check_becomes(f"{PLAIN}print(len(trainer.get_train_dataloader()) // 2)\n", "print(batches.gpu_batches // 2)\n")
    assert port(f"{PLAIN}print(next(iter(trainer.get_train_dataloader())))\n").status == "partial"
    sampled = PLAIN.replace("SFT", "GRPO").replace("train_dataset=", "reward_funcs=len, train_dataset=")
    found = port(f"{sampled}print(len(trainer.get_train_dataloader()))\n")
    assert found.status == "partial" and "gpu_batches" not in found.after
    evaluated = PLAIN.replace("SFTConfig('out')", "SFTConfig('out', eval_strategy='epoch')")
    evaluated = evaluated.replace("train_dataset=rows", "train_dataset=rows, eval_dataset=rows.select([0])")
    check_becomes(f"{evaluated}print(len(trainer.get_eval_dataloader()))\n", "print(eval_batches.gpu_batches)\n")
    check_becomes(f"{evaluated}print(len(trainer.eval_dataset))\n", "print(eval_batches.rows)\n")


def test_a_resized_embedding_is_resized_when_the_port_runs() -> None:
    resized = LOADED.replace("trainer = ", "m.resize_token_embeddings(len(tok), pad_to_multiple_of=8)\ntrainer = ")
    found = check_becomes(resized, "rt.resize_vocabulary(m, len(tok), pad_to_multiple_of=8)\n")
    assert not [finding for finding in found.findings if finding.severity == "warning"]


def test_guards_of_accelerate() -> None:
    text = (
        "from accelerate import Accelerator\naccelerator = Accelerator()\n"
        "with accelerator.main_process_first():\n    print(1)\n"
        f"{PLAIN}accelerator.wait_for_everyone()\naccelerator.print(2)\n"
    )
    check_becomes(text, "with contextlib.nullcontext():\n    print(1)\n", "rt.main_print(2)\n", gone=("ccelerat",))


def test_what_stands_before_the_function_that_imports_has_its_imports() -> None:
    inner = "".join(f"        {line}\n" for line in PLAIN.partition("\n\n")[2].splitlines())
    text = "def main():\n    from datasets import load_dataset\n    from transformers import AutoModelForCausalLM\n"
    text += "    from trl import SFTConfig, SFTTrainer\n"
    text += "    model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B')\n"
    text += f"    def inner():\n{inner.replace(chr(39) + 'Qwen/Qwen3-0.6B' + chr(39), 'model')}    inner()\nmain()\n"
    after = port(text).after
    assert after.index("import jax\n") < after.index("mesh = jax.make_mesh(") < after.index("def main"), after


@pytest.mark.parametrize("made", ['os.environ["BASE"].strip()', 'str(os.environ["BASE"])', '"a/{}".format(rows)'])
def test_a_name_that_a_method_of_texts_gives(made: str) -> None:
    text = PLAIN.replace("trainer = ", f"model_id = {made}\ntrainer = ").replace("'Qwen/Qwen3-0.6B'", "model_id")
    check_becomes(f"import os\n{text}", "model = rt.load_model(model_id, mesh")


def test_what_is_put_behind_a_block_that_goes_stays() -> None:
    found = port(
        "from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training\nfrom trl import SFTTrainer\n"
        "if four:\n    model = prepare_model_for_kbit_training(model)\nmodel = get_peft_model(model, LoraConfig())\n"
        "trainer = SFTTrainer(model_=model)\ntrainer.train()\n"
    )
    assert "if four" not in found.after and "\nmesh = jax.make_mesh(" in found.after and "with mesh:" in found.after
