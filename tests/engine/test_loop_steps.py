"""When a training loop steps: accumulated gradients, clipping, the schedule, and where it ends."""

from __future__ import annotations

import pytest

from .porting import port
from .standard_loops import ACCUMULATED, BEHIND, SCRIPT


def test_a_loop_behind_flags_that_ends_by_its_steps_is_ported() -> None:
    found = port(ACCUMULATED.replace("LOSS", "loss / 4"))
    assert found.status == "ported", found.findings
    assert "accumulation=4," in found.after and "max_steps=6," in found.after


def test_gradients_that_are_summed_are_refused() -> None:
    found = port(ACCUMULATED.replace("LOSS", "loss"))
    assert found.status == "unsupported" and found.edits == ()
    (said,) = (finding for finding in found.findings if finding.severity == "error")
    assert "summed over the 4 batches" in said.message and said.fix == "Divide the loss by it."


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("    optimizer.zero_grad()\n", "", "never set to zero"),
        (
            "    optimizer.step()\n    optimizer.zero_grad()",
            "    optimizer.zero_grad()\n    optimizer.step()",
            "between",
        ),
        (
            "    optimizer.step()",
            "    divide_gradients(model)\n    optimizer.step()",
            "`divide_gradients` gets `model`",
        ),
        ("    optimizer.step()", "    x = normalize_weights(model)\n    optimizer.step()", "may change it"),
        ("    optimizer.step()", "    if hide(model): pass\n    optimizer.step()", "may change it"),
        ("    optimizer.step()", "    y = weigh(model) + 1\n    optimizer.step()", "may change it"),
        ("    optimizer.step()", "    log_and_update(model)\n    optimizer.step()", "may change it"),
    ],
)
def test_what_trains_otherwise_without_looking_so_is_refused(old: str, new: str, why: str) -> None:
    text = SCRIPT.replace("CALL", "**batch")
    assert old in text
    found = port(text.replace(old, new))
    assert found.status == "unsupported" and found.edits == ()
    assert any(why in finding.message for finding in found.findings), found.findings


@pytest.mark.parametrize("line", ["log_stats(model)", "norm = grad_norm(model)", "if len(model): pass", "prof.step()"])
def test_what_only_looks_on_is_no_obstacle(line: str) -> None:
    text = SCRIPT.replace("CALL", "**batch").replace("    optimizer.step()", f"    {line}\n    optimizer.step()")
    assert port(text).status == "ported"


IN_STEP = "        if (step + 1) % 4 == 0:\n"
CLIP = "clip_grad_norm_(model.parameters(), 1.0)\n"
BY_HAND = "    for group in optimizer.param_groups:\n        group['lr'] = 1e-5\n"
OFTEN = "        optimizer.zero_grad()\n"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("(step + 1) % 4", "step % 4", "doesn't step behind every 4 batches"),
        ("loss / 4", "loss / 2", "divided by `2`, and the optimizer steps every `4`"),
        (BEHIND, "        scheduler.step()\n" + BEHIND, "the schedule steps at every batch"),
        (BEHIND, "    scheduler.step(loss)\n" + BEHIND, "`scheduler.step(loss)` steps by what it is given"),
        ("    for step", "    scheduler.step()\n    for step", "stands at the epoch, not behind its steps"),
        (BEHIND, "    optimizer.step()\n" + BEHIND, "stands at the epoch, not behind its steps"),
        ("    for step", BY_HAND + "    for step", "set by hand"),
        (IN_STEP, f"        {CLIP}{IN_STEP}", "clipped at every batch"),
        ("        with torch.auto", OFTEN + "        with torch.auto", "set to zero at every batch"),
        ("done >= 6:\n                break", "step >= 6:\n                break", "ends each epoch"),
        (
            "            scaler.",
            f"            if loss > 1:\n                {CLIP}            scaler.",
            "only some steps",
        ),
    ],
)
def test_a_loop_whose_steps_are_others_is_refused(old: str, new: str, why: str) -> None:
    text = ACCUMULATED.replace("LOSS", "loss / 4")
    assert old in text
    found = port(text.replace(old, new, 1))
    assert found.status == "unsupported" and found.edits == ()
    assert any(why in finding.message for finding in found.findings), found.findings


def test_what_a_condition_clips_and_batches_that_are_counted() -> None:
    clip = f"            if CLIP:\n                {CLIP}            scaler.step"
    text = ACCUMULATED.replace("LOSS", "loss / 4").replace("            scaler.step", clip, 1)
    assert "clip_by_global_norm(1.0 if CLIP else None)" in port(text).after.replace("rt.", "").replace("optax.", "")
    counted = ACCUMULATED.replace("LOSS", "loss / 4").replace(
        "        with torch", "        done += 1\n        with torch"
    )
    counted = counted.replace("            done += 1\n", "").replace("done >= 6", "done >= 24")
    found = port(counted)
    assert "max_steps=6," in found.after and "epochs=2," in found.after
    assert any(finding.message.startswith("The loop ends after 2 epochs or 6 steps") for finding in found.findings)


@pytest.mark.parametrize(("last", "warned"), [("", True), (" or step + 1 == len(loader)", False)])
def test_batches_that_are_left_over_are_carried_on_unless_the_last_makes_a_step(last: str, warned: bool) -> None:
    found = port(ACCUMULATED.replace("LOSS", "loss / 4").replace("% 4 == 0", f"% 4 == 0{last}"))
    assert found.status == "ported", found.findings
    said = [finding for finding in found.findings if "carries the rest into the next step" in finding.message]
    assert [finding.severity for finding in said] == ["warning"] * warned


def test_batches_that_are_left_over_go_where_each_epoch_sets_gradients_to_zero() -> None:
    text = ACCUMULATED.replace("LOSS", "loss / 4").replace("    for step", "    optimizer.zero_grad()\n    for step")
    found = port(text)
    assert found.status == "ported", found.findings
    assert [f.severity for f in found.findings if "the loop leaves the rest out" in f.message] == ["warning"]


def test_of_a_schedule_that_steps_by_batch_and_by_epoch_the_one_at_the_epoch_is_named() -> None:
    step = "            optimizer.zero_grad()\n"
    text = ACCUMULATED.replace("LOSS", "loss / 4").replace(step, f"            scheduler.step()\n{step}")
    found = port(text.replace(BEHIND, "    scheduler.step()\n" + BEHIND, 1))
    assert found.status == "unsupported"
    said = [finding.message for finding in found.findings if finding.severity == "error"]
    assert any("a schedule steps with the batches too" in each for each in said)
    assert any("`scheduler` isn't made by a schedule that is read" in each for each in said)


@pytest.mark.parametrize(
    ("shuffle", "said"), [("True", "another order than the GPU run's"), ("False", "in their order")]
)
def test_what_the_seed_of_a_loop_orders(shuffle: str, said: str) -> None:
    text = SCRIPT.replace("CALL", "**batch")
    found = port(text.replace("batch_size=2", f"batch_size=2, shuffle={shuffle}", 1)).after
    assert f"seed=42,  # the rows come {said}" in found or f"seed=42,  # {said}" in found


@pytest.mark.parametrize(
    "line", ["loss = loss.mean()", "if gpus > 1:\n            loss = loss.mean()", "loss = loss / 4.0\n        x = 1"]
)
def test_a_mean_over_several_gpus_is_of_one_number(line: str) -> None:
    found = port(
        ACCUMULATED.replace("LOSS", "loss / 4").replace("        scaler.scale", f"        {line}\n        scaler.scale")
    )
    assert found.status == ("unsupported" if "4.0" in line else "ported"), found.findings
