"""GPUs that a scheduler is asked for."""

import pytest

from .porting import port, sft_script


@pytest.mark.parametrize(
    ("imports", "after", "said"),
    [
        ("from ray import tune", 'tune.with_resources(go, resources={"cpu": 2, "gpu": 1})', '"gpu": 1'),
        ("from ray.train import ScalingConfig", "ScalingConfig(num_workers=2, use_gpu=True)", "use_gpu=True"),
        ("import ray", "@ray.remote(num_gpus=1)\ndef go():\n    pass", "num_gpus=1"),
        ("import modal", 'app = modal.App()\n@app.function(gpu="A100")\ndef go():\n    pass', 'gpu="A100"'),
        ("import modal\nfrom mine import app", '@app.function(gpu="A100")\ndef go():\n    pass', 'gpu="A100"'),
        (
            "from modal import App, gpu",
            "app = App()\n@app.cls(gpu=gpu.H100(count=2))\nclass Go:\n    pass",
            "gpu.H100(count=2)",
        ),
        ("import modal", 'GPU = "H100"\napp = modal.App()\n@app.function(gpu=GPU)\ndef go():\n    pass', "gpu=GPU"),
        ("import modal\nfrom mine import app", "@app.function(gpu=None)\ndef go():\n    pass", ""),
        ("from mine import app", '@app.function(gpu="A100")\ndef go():\n    pass', ""),
        ("from ray import tune", 'tune.with_resources(go, resources={"cpu": 2, "gpu": 0})', ""),
        ("from ray.train import ScalingConfig", "ScalingConfig(num_workers=2, use_gpu=False)", ""),
        ("import mine", "mine.run(gpu=1)", ""),
    ],
)
def test_a_scheduler_that_is_asked_for_a_gpu_is_an_error(imports: str, after: str, said: str) -> None:
    found = port(sft_script(imports=imports, after=f"trainer.train()\n{after}\n"))
    messages = [finding.message for finding in found.findings if finding.rule == "TP537"]
    assert len(messages) == bool(said) and all(said in message for message in messages)
    assert found.status == ("partial" if said else "ported")
