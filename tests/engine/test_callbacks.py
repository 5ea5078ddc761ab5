"""What a callback does with the model that it is given is ported as it is elsewhere."""

from pathlib import Path

import pytest

from porter.front.port_file import port_file

from .porting import port, sft_script


def script(body: str, event: str = "on_save", more: str = "") -> str:
    return sft_script(
        f"class Mine(TrainerCallback):\n    def {event}(self, args, state, control, {more}**kwargs):\n        {body}\n",
        imports="from peft import LoraConfig\nfrom transformers import TrainerCallback",
        trainer=',\n    peft_config=LoraConfig(r=8, target_modules=["q_proj"]),\n    callbacks=[Mine()]',
    )


@pytest.mark.parametrize(
    ("body", "more", "left"),
    [
        ('kwargs["model"].save_pretrained("a")', "", 'rt.save_adapter(kwargs["model"], "a")'),
        (
            'kwargs.get("model").save_pretrained("a")',
            "",
            'model_2 = kwargs.get("model")\n        rt.save_adapter(model_2, "a")',
        ),
        ('mine = kwargs["model"]\n        mine.save_pretrained("a")', "", 'rt.save_adapter(mine, "a")'),
        ('model.save_pretrained("a")', "model=None, ", 'rt.save_adapter(model, "a")'),
        ("model.eval()\n        print(state.global_step)", "model=None, ", "        print(state.global_step)"),
        ("print(model.num_parameters())", "model=None, ", "print(rt.count_parameters(model))"),
        ("print(model.num_parameters(True))", "model=None, ", "rt.count_parameters(model, trainable=True)"),
        (
            "print(model.num_parameters(only_trainable=True))",
            "model=None, ",
            "rt.count_parameters(model, trainable=True)",
        ),
    ],
)
def test_the_model_of_a_callback_is_tunixs(body: str, more: str, left: str) -> None:
    ported = port(script(body, more=more))
    assert ported.status == "ported", ported.findings
    assert left in ported.after and "save_pretrained" not in ported.after and ".eval()" not in ported.after


@pytest.mark.parametrize(
    ("helper", "call", "left"),
    [
        (
            "    def save(self, given):\n        given['model'].save_pretrained('a')\n",
            "self.save(kwargs)",
            "rt.save_adapter(given['model'], 'a')",
        ),
        (
            "    def save(self, **given):\n        model = given.pop('model')\n        model.save_pretrained('a')\n",
            "self.save(**kwargs)",
            "rt.save_adapter(model, 'a')",
        ),
        (
            "    def save(self, model=None, **rest):\n        model.save_pretrained('a')\n",
            "self.save(**kwargs)",
            "rt.save_adapter(model, 'a')",
        ),
        (
            "\n\ndef save(state, given):\n    given.get('model').save_pretrained('a')\n",
            "save(state, given=kwargs)",
            "rt.save_adapter(model, 'a')",
        ),
        (
            "\n\ndef save(model):\n    model.save_pretrained('a')\n",
            "save(kwargs['model'])",
            "rt.save_adapter(model, 'a')",
        ),
    ],
)
def test_helpers_of_a_callback_get_tunixs_model(helper: str, call: str, left: str) -> None:
    ported = port(script(call).replace(f"        {call}\n", f"        {call}\n\n{helper}"))
    assert ported.status == "ported", ported.findings
    assert left in ported.after.replace("model_2", "model") and "save_pretrained" not in ported.after


@pytest.mark.parametrize("body", ["freeze(kwargs['model'])", "kwargs['model'].resize()", "freeze(kwargs.get('model'))"])
def test_what_no_rule_knows_is_named(body: str) -> None:
    ported = port(script(body))
    assert ported.status == "partial"
    assert [finding.rule for finding in ported.findings if finding.severity == "error"] == ["TP190"]


def test_the_tokenizer_is_given_where_one_is_used() -> None:
    given = "processing_class=tokenizer"
    assert given in port(script('kwargs["tokenizer"].save_pretrained("a")')).after
    assert given in port(script("print(len(processing_class))", more="processing_class=None, ")).after
    assert given not in port(script("print(state.epoch)")).after


def test_a_config_that_a_callback_reads_stays_an_object() -> None:
    assert "SFTConfig(" in port(script("print(args.output_dir)")).after
    assert "SFTConfig(" not in port(script("print(state.epoch)")).after


@pytest.mark.parametrize(
    ("event", "body", "more", "said"),
    [
        ("on_init_end", "print(model)", "model=None, ", "on_init_end uses model"),
        ("on_step_end", "print(optimizer)", "optimizer=None, ", "on_step_end uses optimizer"),
        ("on_save", "control.should_evaluate = True", "", "it sets control.should_evaluate"),
        ("on_optimizer_step", "print(1)", "", "on_optimizer_step"),
    ],
)
def test_what_tunixs_hooks_cannot_is_named(event: str, body: str, more: str, said: str) -> None:
    ported = port(script(body, event, more))
    assert any(said in finding.message and finding.rule == "TP360" for finding in ported.findings)


@pytest.mark.parametrize(
    ("base", "says"),
    [
        ("", "it is no TrainerCallback"),
        ("(WandbCallback)", "its class derives from WandbCallback"),
        ("(TrainerCallback)", ""),
    ],
)
def test_why_a_callback_can_not_be_called_is_said(base: str, says: str) -> None:
    text = script("print(state.global_step)").replace("(TrainerCallback)", base)
    text = text.replace(
        "import TrainerCallback", "import TrainerCallback\nfrom transformers.integrations import WandbCallback"
    )
    found = [finding.message for finding in port(text).findings if finding.rule == "TP360"]
    assert (says in found[0]) if says else not found


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("print(logs['entropy'], logs.get('mean_token_accuracy'), logs.get('train/num_tokens'))", ""),
        ("print(logs.get('aux_loss'), logs['loss'])", "aux_loss"),
        ("print(logs['loss'], logs.get('grad_norm'))", ""),
    ],
)
def test_logs_of_trl_that_the_port_lacks_are_said(body: str, said: str) -> None:
    ported = port(script(body, "on_log", "logs=None, "))
    told = [finding for finding in ported.findings if "TRL logs it, the port doesn't" in finding.message]
    assert ported.status == "ported" and [finding.severity for finding in told] == ["warning"] * bool(said)
    assert not said or told[0].message.startswith(f"Mine reads {said} of the logs")


READ = "\nprint(trainer.state.log_history[0]['logits/chosen'])\n"


@pytest.mark.parametrize(
    ("trainer", "release", "behind", "tracker", "severity"),
    [
        ("ORPO", "1.16.0", READ, "none", "warning"),
        ("ORPO", "1.16.0", "", "none", ""),
        ("ORPO", "1.16.0", "", "wandb", "reason"),
        ("KTO", "1.5.0", READ, "none", "warning"),
        ("KTO", "1.16.0", READ, "none", ""),
        ("DPO", "0.12.0", READ, "none", ""),
    ],
)
def test_logits_over_padding_are_said_where_somebody_sees_them(
    trainer: str, release: str, behind: str, tracker: str, severity: str
) -> None:
    text = sft_script().replace("SFT", trainer).replace('report_to="none"', f'report_to="{tracker}"')
    found = port(text + behind, source_trl=release)
    told = [finding.severity for finding in found.findings if "logits/chosen" in finding.message]
    told += ["reason" for row in found.fields if "not its logits/chosen" in row.reason]
    assert told == [severity] * bool(severity)


OLDER = [
    ("from trl import SFTConfig, ", "from transformers import TrainingArguments\nfrom trl import "),
    ("SFTConfig", "TrainingArguments"),
    ("processing_class", "tokenizer"),
    ('dtype="bfloat16"', "torch_dtype='bfloat16'"),
    ("Qwen3-0.6B", "Qwen2.5-0.5B"),
]


@pytest.mark.parametrize(
    ("release", "keywords", "said"),
    [
        ("4.37.2", "lr_scheduler_type='constant'", "have no grad_norm"),
        ("4.37.2", "max_grad_norm=0", "have the next step's rate and have no grad_norm"),
        ("4.40.0", "lr_scheduler_type='constant', max_grad_norm=0", "have grad_norm where it is clipped"),
        ("4.40.0", "lr_scheduler_type='constant', gradient_accumulation_steps=4", ""),
        ("5.2.0", "max_grad_norm=0.0", "have grad_norm where it is clipped"),
        ("5.2.0", "max_grad_norm=float(open('n').read())", ""),
        ("5.3.0", "max_grad_norm=0.0", ""),
    ],
)
def test_lines_lack_the_norms_that_their_release_did_not_log(
    release: str, keywords: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "requirements.txt").write_text(f"transformers=={release}\n")
    script = tmp_path / "train.py"
    text = sft_script(config=f", {keywords}")
    for new, old in OLDER if release < "5" else ():
        text = text.replace(new, old)
    script.write_text(text)
    found = port_file(script)
    keyword = f'transformers="{release}",  # its lines {said}\n'
    assert (keyword in found.after) if said else "# its lines" not in found.after
    assert not any("grad_norm" in finding.message for finding in found.findings)


def test_the_base_class_itself_is_a_callback_that_the_runtime_has() -> None:
    imports = "from transformers import TrainerCallback"
    text = sft_script(imports=imports, trainer=",\n    callbacks=[TrainerCallback()]")
    ported = port(text)
    assert ported.status == "ported", ported.findings
    assert "from porter.runtime.callbacks import TrainerCallback" in ported.after
