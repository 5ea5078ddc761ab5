"""What a file as a whole becomes: the cases that must not change first."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from porter.errors import InputError
from porter.front.port_file import port_file
from porter.port import Options

from .porting import HEAD, PLAIN, check_becomes, check_noop, port, write


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x = 1\n",
        "# only a comment",
        "import trl\nprint(trl.__version__)\n",
        "from trl import SFTConfig\nargs = SFTConfig('out', learning_rate=1e-4)\n",
        "import torch\ntorch.cuda.empty_cache()\nprint(torch.bfloat16)\n",
        "class SFTTrainer:\n    def train(self): ...\nSFTTrainer().train()\n",
        "from mine import SFTTrainer\nt = SFTTrainer('m')\n",
        "from tunix.sft.peft_trainer import PeftTrainer\nt = PeftTrainer(m)\nt.train(rows)\n",
        "from trl import SFTTrainer\ndef f(SFTTrainer):\n    t = SFTTrainer('m')\n    t.train()\n",
        "from peft import LoraConfig, get_peft_model\nm = get_peft_model(base, LoraConfig(r=8))\n",
        "from accelerate import Accelerator\na = Accelerator()\nprint(a.is_main_process)\n",
        b"\xef\xbb\xbfimport trl\r\n\x0c\r\nif trl:\r\n\tprint( trl )   \r\n",
        "# coding: latin-1\nx = 'é'\n".encode("latin-1"),
    ],
)
def test_nothing_to_port_is_left_alone(text: str | bytes) -> None:
    assert check_noop(text).status == "unchanged"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("from trl import BCOTrainer\nt = BCOTrainer('m')\nt.train()\n", "TP150"),
        ("import trl\ntrl.PPOTrainer('m').train()\n", "TP151"),
        ("from trl import RewardTrainer as R\nR('m').train()\n", "TP153"),
        ("from trl.experimental.gold import GOLDTrainer\nGOLDTrainer('m').train()\n", "TP152"),
        (
            "from transformers import Trainer\nclass T(Trainer):\n    def compute_loss(self): ...\nT(model).train()\n",
            "TP303",
        ),
        (
            "from trl import SFTTrainer\nclass Mine(SFTTrainer):\n    def evaluate(self): ...\nMine('m').train()\n",
            "TP102",
        ),
    ],
)
def test_another_trainer_is_named_and_left_alone(text: str, rule: str) -> None:
    found = check_noop(text)
    assert (found.status, [finding.rule for finding in found.findings]) == ("unsupported", [rule])


def test_a_model_of_another_task_is_refused() -> None:
    head = "from transformers import AutoModelForSequenceClassification, Trainer\n"
    made = "model = AutoModelForSequenceClassification.from_pretrained(m)\n"
    found = port(f"{head}{made}t = Trainer(model)\nt.train()\n")
    assert found.status == "unsupported" and found.findings[0].rule == "TP302"
    assert "AutoModelForSequenceClassification" in found.findings[0].message


def test_a_ported_script_is_left_alone() -> None:
    assert check_becomes(PLAIN, "PeftTrainer(", "from porter import runtime as rt", gone=("trl import", "SFTTrainer"))


def test_what_the_user_wrote_stays_byte_for_byte() -> None:
    own = "def  odd( a,b ) :  # as it is\n\treturn a  +b\n\n\n"
    assert own in port(HEAD + own + PLAIN.removeprefix(HEAD)).after


def test_a_trainer_that_nobody_trains_is_said() -> None:
    found = port(PLAIN.replace("trainer.train()\n", ""))
    assert found.status == "partial" and [finding.rule for finding in found.findings if finding.severity == "error"]


@pytest.mark.parametrize(
    "trainer", ["if x: SFTTrainer({}).train()", "t = x and SFTTrainer({})", "[SFTTrainer({}) for i in x]"]
)
def test_a_trainer_without_a_name_is_said_and_left_alone(trainer: str) -> None:
    statement = trainer.format("'Qwen/Qwen3-0.6B', args=SFTConfig('out'), train_dataset=rows")
    found = check_noop(f"{HEAD}{statement}\n")
    assert found.status == "unsupported" and found.findings[0].rule == "TP102"
    assert found.findings[0].message.startswith("This trainer is made inside an expression")


def test_a_config_that_only_the_script_knows_is_made_once() -> None:
    text = PLAIN.replace("SFTConfig('out')", "SFTConfig('out', **settings())")
    after = check_becomes(
        text, "training_args = SFTConfig('out', **settings())\n", "rt.load_arguments(training_args)"
    ).after
    assert after.count("SFTConfig(") == 1


def test_every_keyword_has_a_fate() -> None:
    text = PLAIN.replace(
        "SFTConfig('out')", "SFTConfig('out', max_steps=3, seed=1, tf32=True, nonsense=2, report_to='none')"
    )
    fates = {row.source: row.fate for row in port(text).fields}
    for name in ("output_dir", "max_steps", "seed", "tf32", "nonsense", "report_to"):
        assert f"SFTConfig.{name}" in fates
    for name in ("model", "args", "train_dataset"):
        assert f"SFTTrainer.{name}" in fates
    assert fates["SFTConfig.nonsense"] == "manual"


def test_a_dropped_keyword_has_a_reason() -> None:
    for row in port(PLAIN.replace("SFTConfig('out')", "SFTConfig('out', dataloader_num_workers=4)")).fields:
        assert row.fate == "exact" or row.reason, row


def test_rules_can_be_left_out() -> None:
    text = "import torch\n" + PLAIN + "torch.cuda.empty_cache()\n"
    assert "empty_cache" not in port(text).after
    assert "empty_cache" in port(text, ignore=("TP510",)).after
    assert check_noop(text, ignore=("TP102",)).status == "unchanged"


def test_names_of_the_port_give_way_to_the_users() -> None:
    text = HEAD + "mesh = batches = schedule = optimizer = rt = 1\n" + PLAIN.removeprefix(HEAD)
    after = check_becomes(
        text, "tpu_mesh = ", "train_batches = ", "lr_schedule = ", "optax_optimizer = ", "tpu_rt."
    ).after
    assert "mesh = batches = schedule = optimizer = rt = 1\n" in after


def test_the_users_comments_follow_their_keywords() -> None:
    config = """SFTConfig(
    'out',
    learning_rate=1e-4,  # found by hand
    weight_decay=0.1,  # a little
    max_steps=5,  # short
)"""
    text = PLAIN.replace("SFTConfig('out')", config)
    check_becomes(text, "# found by hand", "weight_decay=0.1,  # a little", "max_steps=5,  # short")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b"  \n\n", "is empty"),
        (b"a\0b", "binary"),
        (b"\xff\xfe\x00", "binary"),
        (b"x = '\xe9'\n", "not text in its declared encoding"),
        (b"# coding: no-such\n", "not text in its declared encoding"),
        (b"def f(:\n", "does not parse"),
    ],
)
def test_bad_files(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(data)
    with pytest.raises(InputError, match=said) as error:
        port_file(path)
    assert error.value.path == str(path)


def test_a_notebook(tmp_path: Path) -> None:
    for name in ("train.ipynb", "train.py"):
        with pytest.raises(InputError, match="has no cell of Python"):
            port_file(write(tmp_path, '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}', name))


def test_a_folder_and_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"):
        port_file(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        port_file(tmp_path / "none.py")


@pytest.mark.parametrize("mesh", ["", "fsdp", "fsdp=0", "dp=2", "fsdp=2,fsdp=4", "fsdp=-1", "fsdp=2;tp=2"])
def test_a_mesh_that_is_none(mesh: str) -> None:
    with pytest.raises(InputError, match="is no axis"):
        port(PLAIN, mesh=mesh)


def test_a_mesh_that_does_not_divide_names_the_tensor_and_those_that_do() -> None:
    with pytest.raises(InputError, match=r"k_proj/w: kv_heads = 8 does not divide by tp = 16") as error:
        port(PLAIN, mesh="fsdp=1,tp=16")
    assert "Qwen3-0.6B" in str(error.value) and "fsdp=2,tp=8" in str(error.value)


def test_an_unknown_family_is_a_finding() -> None:
    found = port(PLAIN.replace("Qwen/Qwen3-0.6B", "mistralai/Mixtral-8x7B-v0.1"))
    assert found.status == "unsupported" and "SFTTrainer('mistralai" in found.after


def test_a_models_own_config_decides(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text('{"architectures": ["MambaForCausalLM"], "model_type": "mamba"}')
    found = port_file(write(tmp_path, PLAIN.replace("Qwen/Qwen3-0.6B", "m")))
    assert found.status == "unsupported"
    assert any("MambaForCausalLM" in finding.message for finding in found.findings)
    (tmp_path / "m" / "config.json").write_text("{")
    with pytest.raises(InputError, match="is no model config"):
        port_file(tmp_path / "train.py")


def test_the_version_picks_the_defaults() -> None:
    assert "optax.linear_schedule(2e-5" in port(PLAIN, source_trl="1.16.0").after
    old = port(PLAIN.replace("Qwen/Qwen3-0.6B", "Qwen/Qwen2.5-0.5B"), source_trl="0.8.6")
    assert "optax.linear_schedule(5e-5" in old.after
    assert old.recipe.versions["trl"] == "0.8.6 (--source-trl)"
    assert old.recipe.versions["transformers"] == "4.39 (of the day of TRL 0.8.6)"
    newer = port(PLAIN, source_trl="0.8.6").recipe.versions["transformers"]
    assert newer == "4.51.0 (the first release with Qwen/Qwen3-0.6B)"


def test_the_gpu_runs_batch_stays() -> None:
    text = PLAIN.replace(
        "SFTConfig('out')", "SFTConfig('out', per_device_train_batch_size=2, gradient_accumulation_steps=4)"
    )
    found = check_becomes(text, "batch_size=6,  # 2 a GPU on 3 GPUs", "accumulation=4", "processes=3", processes=3)
    (row,) = [row for row in found.fields if row.source == "effective batch"]
    assert "= 24 rows a step" in row.value


def test_a_launch_config_that_is_none(tmp_path: Path) -> None:
    launch = write(tmp_path, "a: 1\n", "launch.yaml")
    with pytest.raises(InputError, match="no accelerate launch config"):
        port_file(write(tmp_path, PLAIN), Options(launch_config=launch))


def test_a_vendored_runtime_is_imported_from_beside() -> None:
    check_becomes(PLAIN, "import porter_runtime as rt", gone=("from porter import",), vendor=True)


def test_an_argument_without_its_keyword_is_said() -> None:
    found = port(PLAIN.replace("SFTConfig('out')", "SFTConfig('out', 3)"))
    assert found.status == "partial" and "argument 2 is given without its keyword" in found.after


def test_a_model_that_is_placed_is_one_site() -> None:
    text = PLAIN.replace("from trl", "from transformers import AutoModelForCausalLM\nfrom trl").replace(
        "trainer = SFTTrainer('Qwen/Qwen3-0.6B'",
        "m = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B').to('cuda')\ntrainer = SFTTrainer(m",
    )
    check_becomes(text, "m = rt.load_model('Qwen/Qwen3-0.6B', mesh)\n", gone=(".to(",))


@pytest.mark.parametrize("model", ["make()", "self.model"])
def test_a_model_from_elsewhere_is_said_and_kept(model: str) -> None:
    found = port(PLAIN.replace("'Qwen/Qwen3-0.6B'", model))
    assert found.status == "partial" and f"rt.load_model({model}" not in found.after


@pytest.mark.parametrize("model", ["model_name", "args.model", "os.environ['MODEL']", "f'{base}-it'"])
def test_a_models_name_that_only_the_script_knows_is_loaded(model: str) -> None:
    check_becomes(PLAIN.replace("'Qwen/Qwen3-0.6B'", model), f"rt.load_model({model}, mesh")


def test_adapters_that_come_before_a_config_object_have_its_seed() -> None:
    text = PLAIN.replace("SFTConfig('out')", "SFTConfig('out', seed=7, save_strategy=rows.info)").replace(
        "trainer = SFTTrainer('Qwen/Qwen3-0.6B'",
        "from transformers import AutoModelForCausalLM\nfrom peft import LoraConfig, get_peft_model\n"
        "model = get_peft_model(AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B'), LoraConfig(r=8))\n"
        "trainer = SFTTrainer(model",
    )
    check_becomes(text, "mesh, seed=7)\n", "training_args = SFTConfig('out', seed=7, ")


def test_an_older_trainers_own_keywords_beside_a_config_object_win() -> None:
    text = PLAIN.replace("SFTConfig('out')", "SFTConfig('out', save_strategy=rows.info)")
    text = text.replace("train_dataset=rows", "train_dataset=rows, max_seq_length=512, dataset_text_field='body'")
    found = port(text, source_trl="0.12.0")
    assert found.status == "ported"
    assert "mesh,\n    max_length=512,\n    text_field='body',\n    trl=\"0.12.0\"," in found.after


def test_a_config_object_resumes_where_train_was_told_to() -> None:
    text = PLAIN.replace("SFTConfig('out')", "SFTConfig('out', save_strategy=rows.info)")
    text = text.replace("train()", "train(resume_from_checkpoint=True)")
    check_becomes(text, "training_args.resume_from_checkpoint = True\ntrainer = PeftTrainer(")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ('PLACES["out"]', "to {PLACES['out']} and on"),
        ("'runs'", "to runs and on"),
        ('PLACES["out"]  # why\n    if PLACES\n    else "x"', "to {PLACES['out'] if PLACES else 'x'} and on"),
    ],
)
def test_a_value_within_an_f_string_takes_the_other_quotes(given: str, shown: str) -> None:
    """Before Python 3.12 an f-string holds none of its own quotes."""
    rest = PLAIN.removeprefix(HEAD).replace("SFTConfig('out')", "args")
    text = f'{HEAD}args = SFTConfig({given})\nprint(f"to {{args.output_dir}} and on")\n{rest}'
    found = port(text)
    ast.parse(found.after)
    assert f'print(f"{shown}")' in found.after


@pytest.mark.parametrize(
    ("given", "line", "shown"),
    [
        ("lambda: x", 'print(f"into {args.output_dir}")', 'print(f"into {(lambda: x)}")'),
        ("a if b else c", 'print(args.output_dir + "/logs")', 'print((a if b else c) + "/logs")'),
        ("root + name", "print(args.output_dir)", "print(root + name)"),
        ("root or name", 'print("to " + args.output_dir)', 'print("to " + (root or name))'),
        (
            "root / name",
            'trainer.save_model(args.output_dir / "final")',
            'rt.save_model(model, (root / name) / "final"',
        ),
    ],
)
def test_a_value_keeps_together_where_the_config_was_read(given: str, line: str, shown: str) -> None:
    text = SCRIPT_WITH_CONFIG.replace("GIVEN", given).replace("LINE", line)
    assert shown in port(text).after


SCRIPT_WITH_CONFIG = """
from trl import SFTConfig, SFTTrainer

args = SFTConfig(output_dir=GIVEN)
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=rows)
trainer.train()
LINE
"""
