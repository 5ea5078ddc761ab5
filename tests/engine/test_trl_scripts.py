"""TRL's own example script of before 0.13, as projects copied it."""

from .porting import check_becomes

SCRIPT = """\
import os
from trl.commands.cli_utils import SFTScriptArguments, TrlParser, init_zero_verbose
from trl.env_utils import strtobool

RICH = strtobool(os.getenv("TRL_USE_RICH", "0"))
if RICH:
    init_zero_verbose()

from datasets import load_dataset
from transformers import AutoTokenizer
from trl import ModelConfig, RichProgressCallback, SFTConfig, SFTTrainer, get_peft_config

parser = TrlParser((SFTScriptArguments, SFTConfig, ModelConfig))
args, training_args, model_config = parser.parse_args_and_config()
tokenizer = AutoTokenizer.from_pretrained(model_config.model_name_or_path)
trainer = SFTTrainer(
    model=model_config.model_name_or_path,
    args=training_args,
    train_dataset=load_dataset(args.dataset_name)[args.dataset_train_split],
    tokenizer=tokenizer,
    peft_config=get_peft_config(model_config),
    callbacks=[RichProgressCallback] if RICH else None,
)
trainer.train()
"""


def test_it_is_ported_without_trl() -> None:
    check_becomes(
        SCRIPT,
        "from porter.runtime.arguments import TrlParser, init_zero_verbose, strtobool, trl_arguments\n",
        'SFTScriptArguments = trl_arguments("0.9.6", "SFTScriptArguments")\n',
        "from porter.runtime.rich_progress import RichProgressCallback\n",
        "callbacks=[RichProgressCallback] if RICH else None",
        gone=("trl.commands", "from trl", "import trl"),
        source_trl="0.9.6",
    )
