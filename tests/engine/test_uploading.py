"""What goes to the Hub, and that no keyword of saving, evaluating and uploading is lost."""

from __future__ import annotations

import re

import pytest

from porter.port import Port

from .porting import port, sft_script

HEAD = """\
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

KEY = input()
rows = load_dataset('x', split='train')
args = SFTConfig('out', eval_strategy='steps'{arguments})
trainer = SFTTrainer('Qwen/Qwen3-0.6B', args=args, train_dataset=rows, eval_dataset=rows)
"""
SAVE = "rt.save_model(model, 'out', tokenizer=tokenizer)\n"


def ported(end: str, arguments: str = "") -> Port:
    return port(f"{HEAD.replace('{arguments}', arguments)}{end}\n")


def fates(found: Port, method: str) -> dict[str, str]:
    return {row.source.split(".")[1]: row.fate for row in found.fields if row.source.startswith(f"{method}.")}


@pytest.mark.parametrize(
    ("arguments", "call", "becomes"),
    [
        ("", "trainer.push_to_hub()", "rt.push_to_hub('out')"),
        (", hub_model_id='a/b'", "trainer.push_to_hub('done')", "rt.push_to_hub('out', 'a/b', commit_message='done')"),
        (", hub_private_repo=True", "trainer.push_to_hub()", "rt.push_to_hub('out', private=True)"),
        (", hub_private_repo=False", "trainer.push_to_hub()", "rt.push_to_hub('out')"),
        (", hub_revision='v2'", "trainer.push_to_hub()", "rt.push_to_hub('out', revision='v2')"),
        ("", "trainer.model.push_to_hub('a/b', use_auth_token=True)", "rt.push_to_hub(model, 'a/b')"),
        ("", "trainer.model.push_to_hub('a/b', use_auth_token=KEY)", "rt.push_to_hub(model, 'a/b', token=KEY)"),
        ("", "trainer.model.push_to_hub('a/b', private=True)", "rt.push_to_hub(model, 'a/b', private=True)"),
        (", hub_private_repo=True", "trainer.model.push_to_hub('a/b')", "rt.push_to_hub(model, 'a/b')"),
    ],
)
def test_a_private_repository_stays_private(arguments: str, call: str, becomes: str) -> None:
    found = ported(f"trainer.train()\n{call}", arguments)
    assert found.status == "ported", found.findings
    saved = SAVE if call.startswith("trainer.push") else ""
    assert f"{saved}{becomes}\n" in found.after and (saved or SAVE not in found.after)


@pytest.mark.parametrize(
    ("arguments", "end", "uploads"),
    [
        (", push_to_hub=True, hub_private_repo=True", "trainer.train()", True),
        (", push_to_hub=True, hub_strategy='end'", "trainer.train()", False),
        (", push_to_hub=True, hub_strategy='end'", "trainer.train()\ntrainer.save_model('out')", True),
        (", push_to_hub=True, hub_strategy='end'", "trainer.train()  # no trainer.save_model('out')", False),
        (", push_to_hub=True", "trainer.train()\n# trainer.push_to_hub()", True),
        (", push_to_hub=True, save_strategy='no'", "trainer.train()", False),
        (", push_to_hub=False", "trainer.train()", False),
        ("", "trainer.train()", False),
    ],
)
def test_a_trainer_that_uploads_by_itself(arguments: str, end: str, uploads: bool) -> None:
    found = ported(end, arguments)
    assert found.status == "ported", found.findings
    assert ("rt.push_to_hub(" in found.after) is uploads
    assert not uploads or "private=True" in found.after or "private" not in arguments
    (fate,) = [row.fate for row in found.fields if row.source == "SFTConfig.push_to_hub"] or [""]
    assert (fate == "changed") is uploads


@pytest.mark.parametrize(
    ("arguments", "end", "condition"),
    [
        (", push_to_hub=CFG.get('push', False)", "trainer.train()", "if CFG.get('push', False):"),
        (", push_to_hub=CFG['a'] or CFG['b']", "trainer.train()", "if CFG['a'] or CFG['b']:"),
        (", push_to_hub=CFG['a'], hub_strategy='end'", "trainer.train()", None),
        (", push_to_hub=CFG['a'], hub_strategy=CFG['b']", "trainer.train()", "if CFG['a'] and CFG['b'] != \"end\":"),
        (", push_to_hub=CFG['a'], save_strategy='no'", "trainer.train()", None),
        (", push_to_hub=CFG['a']", "trainer.train()\nif CFG['a']:\n    trainer.push_to_hub()", None),
        (
            ", push_to_hub=CFG['a'], save_strategy=CFG['b']",  # which keeps the arguments as an object
            "trainer.train()",
            'if args.push_to_hub and args.save_strategy != "no":',
        ),
    ],
)
def test_a_trainer_that_uploads_where_the_run_says_so(arguments: str, end: str, condition: str | None) -> None:
    found = port("CFG = load()\n" + HEAD.replace("{arguments}", f"{arguments}, hub_token=CFG['t']") + f"{end}\n")
    assert found.status == "ported", found.findings
    if condition is None:
        assert "    rt.push_to_hub(" not in found.after or "trainer.push" in end
        return
    save = "    rt.save_model(model, "
    assert f"    trainer.train(batches, eval_batches)\n{condition}\n{save}" in found.after
    token = "args.hub_token" if "args.push" in condition else "CFG['t']"
    assert f"token={token}" in found.after.split(save)[1]
    [fate] = [row.fate for row in found.fields if row.source == "SFTConfig.hub_token"]
    assert fate == "exact"


UPLOAD, ASKS = "rt.push_to_hub('out')\n", "if CFG['a']:\n    "
FINAL = SAVE.replace("'out'", "'out/final'")


@pytest.mark.parametrize(
    ("asked", "save", "written"),
    [
        ("True", "trainer.save_model()", SAVE + UPLOAD),
        ("True", "trainer.save_model(args.output_dir)", SAVE + UPLOAD),
        ("True", "trainer.save_model('out/final')", SAVE + FINAL + UPLOAD),
        ("True", "if rows:\n    trainer.save_model('out')", f"{SAVE}{UPLOAD}if rows:\n    {SAVE}"),
        ("CFG['a']", "trainer.save_model()", SAVE + ASKS + UPLOAD),
        ("CFG['a']", "trainer.save_model('out/final')", ASKS + SAVE + FINAL + ASKS + UPLOAD),
    ],
)
def test_what_is_saved_is_uploaded_with_the_folder(asked: str, save: str, written: str) -> None:
    """`save_model` writes first and uploads the output folder then, with what it has put into it."""
    end = f"trainer.train()\n{save}\n"
    found = port("CFG = load()\n" + HEAD.replace("{arguments}", f", push_to_hub={asked}") + end)
    assert found.status == "ported", found.findings
    assert found.after.endswith(f"    trainer.train(batches, eval_batches)\n{written}")


def test_what_is_saved_before_the_training_uploads_nothing_behind_it() -> None:
    end = "trainer.save_model('out/start')\ntrainer.train()\n"
    after = port(HEAD.replace("{arguments}", ", push_to_hub=True") + end).after
    assert after.count("rt.push_to_hub(") == 1 and after.endswith(
        f"    trainer.train(batches, eval_batches)\n{SAVE}{UPLOAD}"
    )


def test_the_tokenizer_is_there_before_the_upload() -> None:
    """A script that saves it itself, below: the upload stands in front of that."""
    text = HEAD.replace("eval_dataset=rows", "processing_class=tokenizer, eval_dataset=rows")
    loads = "from transformers import AutoTokenizer\ntokenizer = AutoTokenizer.from_pretrained('Qwen/Qwen3-0.6B')\n"
    end = "trainer.train()\ntrainer.save_model('out/final')\ntokenizer.save_pretrained('out/final')\n"
    own = "tokenizer.save_pretrained('out/final')\n"
    assert port(loads + text.replace("{arguments}", ", push_to_hub=True") + end).after.endswith(FINAL + UPLOAD + own)
    plain = port(loads + text.replace("{arguments}", "") + end).after
    assert plain.endswith(FINAL.replace(", tokenizer=tokenizer", "") + own)


def test_parsed_arguments_may_ask_for_an_upload() -> None:
    parsed = HEAD.replace(
        "args = SFTConfig('out', eval_strategy='steps'{arguments})", "(args,) = parser.parse_args_and_config()"
    )
    text = f"from trl import TrlParser\nparser = TrlParser(SFTConfig)\n{parsed}trainer.train()\n"
    condition = 'if args.push_to_hub and args.save_strategy != "no" and args.hub_strategy != "end":\n'
    after = port(text.replace("trainer.train()", "print(args.push_to_hub)\ntrainer.train()")).after
    assert f"{condition}    rt.save_model(model, args.output_dir" in after and "uploads=True)" in after
    plain = port(text).after  # which refuses to be asked when it runs
    assert "push_to_hub" not in plain and "uploads=" not in plain


def test_an_upload_whose_condition_cant_be_read_is_named() -> None:
    text = HEAD.replace("{arguments}", ", push_to_hub=push").replace("\nargs", "\ndef make(push):\n    args")
    text = text.replace("\ntrainer = ", "\n    trainer = ") + "    return trainer\ntrainer = make(1)\ntrainer.train()\n"
    messages = [finding.message for finding in port(text).findings if finding.severity == "error"]
    assert [message for message in messages if message.startswith("push_to_hub=push: ")]


def test_every_keyword_of_these_calls_has_a_fate() -> None:
    found = ported(
        "trainer.train(ignore_keys_for_eval=['x'])\n"
        "print(trainer.evaluate(rows, metric_key_prefix='test'))\n"
        "trainer.model.save_pretrained('a', safe_serialization=False, max_shard_size='1GB')\n"
        "trainer.push_to_hub(blocking=False, tags=['a'])"
    )
    assert found.status == "ported", found.findings
    assert "rt.evaluate(trainer, batches.evaluation(rows, batch_size=8), metric_key_prefix='test')" in found.after
    assert fates(found, "train") == {"ignore_keys_for_eval": "dropped"}
    assert fates(found, "evaluate") == {"metric_key_prefix": "exact"}
    assert fates(found, "save_pretrained") == {"safe_serialization": "changed", "max_shard_size": "dropped"}
    assert fates(found, "push_to_hub") == {"blocking": "changed", "tags": "dropped"}


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("trainer.train(trial=best)", "train.trial=best: a search over hyper-parameters has no counterpart."),
        (
            "trainer.train()\ntrainer.model.save_pretrained('a', push_to_hub=True)",
            "upload nothing: rt.push_to_hub does",
        ),
        ("trainer.train()\ntrainer.save_model('a', brand_new=1)", "the port's call takes no such argument."),
        ("trainer.train()\ntrainer.model.save_pretrained('a', **best)", "(..., **best): what it holds is not known"),
        ("trainer.train()\ntrainer.evaluate(**best)", "(..., **best): what it holds is not known"),
    ],
)
def test_what_these_calls_can_not_do_is_named(end: str, said: str) -> None:
    found = ported(end)
    assert [finding.message for finding in found.findings if said in finding.message] and found.status == "partial"


def test_what_a_save_keeps_for_an_upload_goes_where_nothing_is_uploaded() -> None:
    found = ported("trainer.train()\ntrainer.model.save_pretrained('a', save_adapter=True, token=best)")
    assert found.status == "ported" and fates(found, "save_pretrained") == {
        "save_adapter": "dropped",
        "token": "dropped",
    }
    assert (
        ported("trainer.train()\ntrainer.model.save_pretrained('a', token=best, push_to_hub=True)").status == "partial"
    )


@pytest.mark.parametrize(
    ("trainer", "release", "folder"),
    [
        ('SFTTrainer("Qwen/Qwen3-0.6B"', "1.16.0", "Qwen3-0.6B-SFT"),
        ('SFTTrainer("Qwen/Qwen3-0.6B"', "0.14.0", "tmp_trainer"),
        ('GRPOTrainer("Qwen/Qwen3-0.6B", reward_funcs=lambda completions, **k: [0.0]', "1.16.0", "Qwen3-0.6B-GRPO"),
        ('SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig()', "1.16.0", "trainer_output"),
        ("SFTTrainer(model", "1.16.0", "trainer_output"),
    ],
)
def test_where_a_trainer_without_arguments_saves(trainer: str, release: str, folder: str) -> None:
    text = (
        "from datasets import load_dataset\nfrom trl import GRPOTrainer, SFTConfig, SFTTrainer\n"
        f"trainer = {trainer}, train_dataset=load_dataset('x', split='train'))\ntrainer.train()\n"
    )
    assert f'rt.fresh_dir("{folder}")' in port(text, source_trl=release).after


def test_the_folder_of_a_model_whose_name_is_read_when_it_runs() -> None:
    text = (
        "import sys\nfrom datasets import load_dataset\nfrom transformers import AutoModelForCausalLM\n"
        "from trl import SFTTrainer\nmodel = AutoModelForCausalLM.from_pretrained(sys.argv[1])\n"
        "trainer = SFTTrainer(model, train_dataset=load_dataset('x', split='train'))\ntrainer.train()\n"
    )
    assert 'rt.fresh_dir(sys.argv[1].split("/")[-1] + "-SFT")' in port(text).after


@pytest.mark.parametrize(
    ("end", "repositories"),
    [
        ("trainer.model.push_to_hub('me/adapter')", ["'me/all'", "'me/adapter'"]),
        ("trainer.model.push_to_hub(repo_id=input())", ["'me/all'", "input()"]),
        ("trainer.model.push_to_hub('me/all')", ["'me/all'"]),
        ("name = 'me/all'\ntrainer.model.push_to_hub(name)", ["name"]),
        ("trainer.push_to_hub('the end')", ["'me/all'"]),
    ],
)
def test_a_model_that_is_uploaded_elsewhere_too(end: str, repositories: list[str]) -> None:
    """The Trainer uploads to `hub_model_id`, whatever the script itself uploads to another repository."""
    found = ported(f"trainer.train()\n{end}", ", push_to_hub=True, hub_model_id='me/all'")
    assert found.status == "ported", found.findings
    assert re.findall(r"rt\.push_to_hub\((?:'out'|model), ([^,\n]+?)(?:, .*)?\)\n", found.after) == repositories


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("load_dataset('y', use_auth_token=True)", "load_dataset('y', token=True)"),
        ("load_dataset('y', token=KEY, use_auth_token=True)", "load_dataset('y', token=KEY)"),
        ("AutoTokenizer.from_pretrained('a/b', use_auth_token=KEY)", "AutoTokenizer.from_pretrained('a/b', token=KEY)"),
        ("tokenizer.push_to_hub('a/b', use_temp_dir=False, check_pr=True)", "tokenizer.push_to_hub('a/b')"),
        ("tokenizer.push_to_hub(use_temp_dir=False, repo_id='a/b')", "tokenizer.push_to_hub(repo_id='a/b')"),
        ("tokenizer.push_to_hub('a/b', private=True)", "tokenizer.push_to_hub('a/b', private=True)"),
        ("tokenizer.push_to_hub('a', organization='b')", "tokenizer.push_to_hub('a', organization='b')"),
        ("client.load_dataset('y', use_auth_token=True)", "client.load_dataset('y', use_auth_token=True)"),
    ],
)
def test_kept_calls_to_the_hub_have_the_keywords_of_today(line: str, becomes: str) -> None:
    before = "from transformers import AutoTokenizer\ntokenizer = AutoTokenizer.from_pretrained('Qwen/Qwen3-0.6B')\n"
    found = port(f"{before}{HEAD.replace('{arguments}', '')}trainer.train()\n{line}\n")
    assert f"\n{becomes}\n" in found.after
    assert port(found.data).edits == ()


def test_what_transformers_reads_past_at_an_upload() -> None:
    found = ported("trainer.train()\ntrainer.model.push_to_hub('a/b', use_temp_dir=False, check_pr=True)")
    assert found.status == "ported", found.findings
    assert fates(found, "push_to_hub") == {"use_temp_dir": "dropped", "check_pr": "dropped"}


def test_unsloths_upload_of_the_adapter_is_the_adapters() -> None:
    found = port(
        "from datasets import load_dataset\n"
        "from trl import SFTConfig, SFTTrainer\nfrom unsloth import FastLanguageModel\n"
        "model, tokenizer = FastLanguageModel.from_pretrained('unsloth/Qwen3-0.6B', load_in_4bit=False)\n"
        "model = FastLanguageModel.get_peft_model(model, r=8, target_modules=['q_proj'], lora_alpha=8)\n"
        "trainer = SFTTrainer(model, SFTConfig('out'), train_dataset=load_dataset('a/b')['train'])\ntrainer.train()\n"
        "model.push_to_hub_merged('me/it', tokenizer, save_method='lora', token=KEY)\n"
    )
    wanted = "rt.push_to_hub(model, 'me/it', token=KEY)\ntokenizer.push_to_hub('me/it', token=KEY)\n"
    assert found.after.endswith(wanted), found.findings


@pytest.mark.parametrize(
    ("between", "trl", "more", "said"),
    [
        ("tokenizer.eos_token = '<|im_end|>'", "1.16.0", "", True),
        ("tokenizer.eos_token = '<|im_end|>'", "0.19.1", "", False),  # beside transformers 4.53
        ("tokenizer.pad_token = tokenizer.eos_token", "1.16.0", "", False),
        ("tokenizer.eos_token = '<|im_end|>'\nmodel.config.eos_token_id = tokenizer.eos_token_id", "1.16.0", "", False),
        ("tokenizer.eos_token = '<|im_end|>'", "1.16.0", ", peft_config=LoraConfig()", False),
    ],
)
def test_an_end_token_that_the_trainer_writes_is_told(between: str, trl: str, more: str, said: bool) -> None:
    tokens = f"tokenizer = AutoTokenizer.from_pretrained('Qwen/Qwen3-0.6B')\n{between}\n"
    after = "trainer.train()\ntrainer.save_model('a')\ntrainer.model.save_pretrained('b')\n"
    text = sft_script(imports="from peft import LoraConfig", between=tokens, trainer=more, after=after)
    text = text.replace("dtype=", "torch_dtype=")  # dtype= is of 4.56
    found = [each for each in port(text, source_trl=trl).findings if "end token the model's" in each.message]
    assert len(found) == 2 * said  # at each save
