"""The dependencies of a `# /// script` block are those of the port."""

import pytest

from .porting import port, sft_script


@pytest.mark.parametrize(
    "listed",
    [
        '["trl[peft]", "torch", "rich"]',
        '[\n#   "trl[peft]>=0.9",  # ours\n#   "rich",\n# ]',
        "['trl[quantization,peft]', 'rich']",
    ],
)
def test_extras_do_not_end_the_list(listed: str) -> None:
    after = port(f"# /// script\n# dependencies = {listed}\n# ///\n{sft_script()}").after
    assert after.startswith('# /// script\n# dependencies = [\n#     "rich",\n#     "tpu-port[tpu]",\n# ]\n# ///\n')
