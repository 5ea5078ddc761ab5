"""Which file of a script's project an import means."""

from __future__ import annotations

import sys
from pathlib import Path

from ...errors import InputError
from ...files import is_file, plain_text
from .folders import project_folders

LARGEST = 2_000_000  # bytes of a file that is read
ABOVE = 3  # folders above the script's that are looked into where nothing says which is the project's root
# Never a file of the project, even in a script that lies in its library's own folder.
LIBRARIES = sys.stdlib_module_names | frozenset(
    "accelerate click datasets draccus fire hydra jsonargparse numpy omegaconf peft pydantic simple_parsing torch"
    " transformers trl typer tyro unsloth yaml".split()
)
# Installed, unless a file of that name lies beside the script, where Python finds it first.
INSTALLED = frozenset(
    "absl aiohttp apex bitsandbytes bs4 colorama comet_ml cv2 deepspeed diffusers docx dotenv einops evaluate faiss"
    " fastapi flask flash_attn flax fsspec gradio hf_transfer httpx huggingface_hub IPython jax jinja2 joblib json5"
    " langchain liger_kernel lightning lm_eval loguru matplotlib mlflow nltk openai optax orjson packaging pandas PIL"
    " plotly polars psutil pyarrow pytest qwix ray regex requests rich rouge rouge_score sacrebleu safetensors"
    " scipy seaborn sentence_transformers sentencepiece sklearn spacy streamlit swanlab sympy tabulate tenacity"
    " tensorboard tensorboardX tensorflow termcolor tiktoken tokenizers torchaudio torchdata torchmetrics torchvision"
    " tqdm triton trlx tunix vllm wandb xformers xgboost".split()
)


def project_file(script: str, name: str) -> str:
    """The file of a script's project that an import means, `configs.make` or `..configs`, as it is written there; ""
    for none. It is looked for beside the script and in the folders above it, and in their `src`.
    """
    found = find_project_file(script, name)
    return found[1] if found is not None else ""


def find_project_file(script: str, name: str) -> tuple[Path, str] | None:
    """The file, and its name from the folder on that imports start at."""
    dots = len(name) - len(name.lstrip("."))
    parts = name.lstrip(".").split(".")
    if not dots and parts[0] in LIBRARIES:
        return None
    path = Path(script).absolute()
    if dots:
        starts = list(path.parents[dots - 1 : dots])
    elif parts[0] in INSTALLED:
        starts = [path.parent]
    else:
        folders = project_folders(path, above=ABOVE)
        starts = [*folders, *(folder / "src" for folder in folders)]
    for start in starts:
        for count in range(len(parts), 0, -1):
            inner = start.joinpath(*parts[:count])
            for file in (inner.with_suffix(".py"), inner / "__init__.py"):
                if inner.name and is_file(file):
                    return file, file.relative_to(start).as_posix()
    return None


def project_text(script: str, name: str) -> str | None:
    """The text of the file that an import of a script means; None where there is none, or it can't be read."""
    found = find_project_file(script, name)
    try:
        return plain_text(found[0], LARGEST) if found is not None else None
    except (OSError, InputError):
        return None
