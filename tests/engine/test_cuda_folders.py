"""What a GPU machine's installation sets in the environment, and a TPU machine hasn't."""

import pytest

from .porting import port, sft_script


def ported(line: str):
    return port(sft_script(line, imports="import logging\nimport os\nlogger = logging.getLogger()"))


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ('print("CUDA_HOME:", os.environ["CUDA_HOME"])', 'print("CUDA_HOME:", os.environ.get("CUDA_HOME"))'),
        ('print("{}".format(os.environ["CUDA_PATH"]))', 'print("{}".format(os.environ.get("CUDA_PATH")))'),
        ("logger.info(f\"{os.environ['CUDNN_PATH']}\")", "logger.info(f\"{os.environ.get('CUDNN_PATH')}\")"),
    ],
)
def test_a_line_that_only_prints_it_says_that_it_is_not_set(line: str, becomes: str) -> None:
    found = ported(line)
    assert becomes in found.after and found.status == "ported"


@pytest.mark.parametrize(
    "line",
    [
        'home = os.environ["CUDA_HOME"]',
        'print(os.environ["CUDA_HOME"] + "/lib64")',
        'path = os.path.join(os.getenv("CUDA_HOME"), "lib64")',
        'os.environ["NCCL_DEBUG"] += ",ALL"',
        'gpus = os.environ["NVIDIA_VISIBLE_DEVICES"].split(",")',
    ],
)
def test_what_can_not_go_on_without_it_is_an_error(line: str) -> None:
    said = [each for each in ported(line).findings if "a TPU machine has no CUDA" in each.message]
    assert [each.severity for each in said] == ["error"]


@pytest.mark.parametrize(
    "line",
    [
        'os.environ["CUDA_HOME"] = "/usr/local/cuda"\nprint(os.environ["CUDA_HOME"])',
        'home = os.environ["CUDA_HOME"] if "CUDA_HOME" in os.environ else ""',
        'home = os.environ.get("CUDA_HOME", "")',
        'key = os.environ["NVIDIA_API_KEY"]',
        'try:\n    home = os.environ["CUDA_HOME"]\nexcept KeyError:\n    home = None',
    ],
)
def test_what_the_script_sets_or_asks_for_stays(line: str) -> None:
    found = ported(line)
    assert line in found.after and not [each for each in found.findings if "no CUDA" in each.message]
