"""torch.manual_seed: it seeds what the port samples, and stays where torch draws."""

from __future__ import annotations

import pytest

from .generating_scripts import IDS, script
from .porting import port


def test_a_seed_of_torchs_seeds_what_the_port_samples() -> None:
    lines = [IDS, "for row in rows:", "    torch.manual_seed(42)", "    print(model.generate(**ids, do_sample=True))"]
    after = port(script(*lines)).after
    assert "for row in rows:\n    rt.manual_seed(42)\n    print(rt.generate(" in after and "import torch" not in after
    after = port(script("torch.manual_seed(7)", "print(len(rows))")).after
    assert "manual_seed" not in after and "import torch" not in after


@pytest.mark.parametrize(
    ("draw", "stays"),
    [
        ("torch.randperm(4)", True),
        ("torch.utils.data.random_split(rows, [1, 2])", True),
        ("torch.utils.data.dataset.random_split(rows, [1, 2])", True),
        ("torch.utils.data.DataLoader(rows, shuffle=True)", True),
        ("torch.utils.data.DataLoader(rows, 2, True)", True),
        ("torch.utils.data.DataLoader(rows, 2, shuffle=False)", False),
        ("torch.utils.data.DataLoader(rows, 2)", False),
        ("torch.utils.data.DataLoader(rows, shuffle=True, generator=own)", False),
        ("torch.randperm(4, generator=own)", False),
        ("torch.zeros(4)", False),
    ],
)
def test_torchs_seed_stays_where_torch_draws(draw: str, stays: bool) -> None:
    lines = ["torch.manual_seed(7)", f"print({draw})"]
    after = port(script(*lines)).after
    assert ("torch.manual_seed(7)\nprint(" in after) is stays and "rt.manual_seed" not in after
    after = port(script(IDS, *lines, "print(model.generate(**ids, do_sample=True))")).after
    seeds = "torch.manual_seed(7)\nrt.manual_seed(7)\nprint(" if stays else "\nrt.manual_seed(7)\nprint("
    assert seeds in after and after.count("manual_seed") == 1 + stays
    after = port(script(IDS, "; ".join(lines), "print(model.generate(**ids, do_sample=True))")).after
    assert not stays or "torch.manual_seed(7); rt.manual_seed(7); print(" in after
