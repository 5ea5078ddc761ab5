"""What a training loop does to its batch and its loss besides: which parts of the batch the model gets, and what makes
the loop another one than the standard one."""

from __future__ import annotations

import pytest

from .standard_loops import STANDARD, WHOLE, read

IN_STEP = "loss = model(**batch).loss"
NO_MASK = {"input_ids": "input_ids", "labels": "labels"}
MOVED = "batch = {k: v.to(device) for k, v in batch.items()"


@pytest.mark.parametrize(
    ("lines", "inputs"),
    [
        (f"{MOVED} if k != 'attention_mask'}}", NO_MASK),
        (f"{MOVED} if k in ('input_ids', 'labels') and torch.is_tensor(v)}}", NO_MASK),
        (f"{MOVED} if isinstance(v, torch.Tensor) and k not in ['id', 'text']}}", WHOLE),
        ("batch = {k: v.cuda() if torch.is_tensor(v) else v for k, v in batch.items()}", WHOLE),
        ("batch.pop('attention_mask', None)", NO_MASK),
        ("del batch['attention_mask']", NO_MASK),
        ("del batch['id'], batch['attention_mask']", NO_MASK),
        ("batch.pop('id')", WHOLE),
        ("if 'id' in batch:\n            batch.pop('id')", WHOLE),
        ("watch(batch)", WHOLE),
        ("batch = {k: batch[k] for k in ('input_ids', 'labels')}\n        ids = batch['input_ids']", NO_MASK),
    ],
)
def test_which_parts_of_the_batch_are_left(lines: str, inputs: dict[str, str]) -> None:
    _, loop = read(WATCH + STANDARD.replace(IN_STEP, f"{lines}\n        {IN_STEP}"))
    assert (loop.obstacles, loop.inputs) == ([], inputs)


WATCH = """
def watch(batch):
    print(len(batch))
    return batch

def mask(batch, start):
    batch["labels"][:, :start] = -100

"""


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (MOVED.replace("device)", "device)[:, :256]") + "}", "`batch` is changed"),
        (f"{MOVED} if v.sum() > 0}}", "`batch` is changed"),
        (f"{MOVED} if k != 'labels' or hard}}", "`batch` is changed"),
        ("batch.update(labels=batch['input_ids'].clone())", "`batch` is changed"),
        ("batch.pop(args.unused)", "takes out of the batch is known to the run alone"),
        ("if args.plain:\n            batch.pop('attention_mask')", "`batch` is changed"),
        ("if args.plain:\n            del batch['attention_mask']", "`batch` is changed"),
        ("batch['labels'].clamp_(0)", "`batch` is changed"),
        ("mask(batch, 5)", "`mask` changes `batch`"),
        ("mask(start=5, batch=batch)", "`mask` changes `batch`"),
        ("batch = watch(batch)", "`batch` is changed"),
        (f"{IN_STEP}\n        loss.mul_(2)", "`loss` is changed"),
        (
            "outputs = model(**batch)\n        outputs = gather(outputs)\n        loss = outputs.loss",
            "`outputs` is changed",
        ),
        ("inputs = {'labels': batch['labels']}\n        inputs['labels'] = shift(inputs)", "`inputs` is changed"),
    ],
)
def test_what_else_is_done_to_the_batch_or_the_loss_is_no_standard(lines: str, said: str) -> None:
    lines = lines if "loss" in lines else f"{lines}\n        {IN_STEP}"
    _, loop = read(WATCH + STANDARD.replace(IN_STEP, lines))
    assert any(said in obstacle.reason for obstacle in loop.obstacles), [each.reason for each in loop.obstacles]


def test_the_model_whose_loss_is_minimised_is_trained() -> None:
    lines = "outputs = model(**batch)\n        other = base(**batch)\n        loss = outputs.loss"
    behind = "loss.backward()\n        after = base(**batch).loss"
    for text in (STANDARD, STANDARD.replace("loss.backward()", behind)):
        _, loop = read(text.replace(IN_STEP, lines))
        assert (loop.obstacles, loop.model) == ([], "model")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("        optimizer.step()", "        optimizer.step()\n        optimizer.step()", "steps twice"),
        ("        optimizer.step()", "        scaler.step(optimizer)\n        scaler.step(optimizer)", "steps twice"),
        (IN_STEP, f"{IN_STEP}\n        clip_grad_norm_(model.parameters(), 1.0)", "clipped where it changes no step"),
        (
            "        optimizer.zero",
            "        clip_grad_norm_(p, 1.0)\n        optimizer.zero",
            "where it changes no step",
        ),
        (
            "        optimizer.step()",
            "        clip_grad_norm_(model.lm_head.parameters(), 1.0)\n        optimizer.step()",
            "the gradients of `model.lm_head` are clipped, and no others",
        ),
        ("enumerate(loader)", "enumerate(islice(loader, 10))", "aren't all that a DataLoader gives"),
        ("enumerate(loader)", "enumerate(reversed(list(loader)))", "aren't all that a DataLoader gives"),
        ("enumerate(loader)", "enumerate(batches[:10])", "aren't all that a DataLoader gives"),
    ],
)
def test_steps_and_batches_of_another_kind_are_named(old: str, new: str, said: str) -> None:
    _, loop = read(WATCH + STANDARD.replace(old, new, 1))
    assert any(said in obstacle.reason for obstacle in loop.obstacles), [each.reason for each in loop.obstacles]


@pytest.mark.parametrize(
    "loader",
    ["list(loader)", "self.train_dataloader()", 'loaders["train"]', "accelerator.prepare(loader)", "track(loader)"],
)
def test_what_gives_all_batches_is_a_loader(loader: str) -> None:
    _, loop = read(STANDARD.replace("enumerate(loader)", f"enumerate({loader})"))
    assert loop.obstacles == []


def test_batches_that_are_skipped_are_of_a_run_that_is_resumed() -> None:
    module, loop = read(STANDARD.replace("(loader)", "(accelerator.skip_first_batches(loader, 5))"))
    assert [left.what for left in loop.left] == ["resuming"] and loop.loader is not None
    assert module.code(loop.loader) == "loader"


GROUPS = "for group in optimizer.param_groups:\n            "
WEIGHTS = "for p in model.parameters():\n            "
HELPERS = """
def log_rate(opt, epoch):
    for group in opt.param_groups:
        group["lr"] = 0.1 / (epoch + 1)

def log_norms(net):
    print([p.norm() for p in net.parameters()])

def log_first_rate(opt):
    opt.param_groups[0]["lr"] = 1e-5

def show(net):
    net.lm_head.weight.data.zero_()

def show_all(net):
    show(net)

def show_own():
    model.lm_head.weight.data.zero_()

def log_state(net):
    net.load_state_dict(torch.load("best.pt"))

def show_texts(net):
    net.config.use_cache = True
    net.generation_config.max_length = 9
    model = net.state_dict()
    model["a"] = 1
    rates.append(net.norms[0])

"""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"{WEIGHTS}p.clamp_(-1, 1)", "`p.clamp_(-1, 1)` changes what is trained"),
        (f"{WEIGHTS}torch.clamp_(p, -1, 1)", "`torch.clamp_(p, -1, 1)` changes what is trained"),
        (f"{WEIGHTS}p.requires_grad = False", "`p.requires_grad = False` changes what is trained"),
        ("for p, q in zip(model.parameters(), start):\n            p.copy_(q)", "`p.copy_(q)` changes what is trained"),
        ("weight = model.lm_head.weight\n        weight.mul_(2)", "`weight.mul_(2)` changes what is trained"),
        (f"{GROUPS}group['betas'] = (0.5, 0.9)", "`group['betas'] = (0.5, 0.9)` changes what is trained"),
        (f"{GROUPS}group.update(lr=1e-6)", "`group.update(lr=1e-6)` changes what is trained"),
        (f"{GROUPS}group['lr'] = 1e-6", "the learning rate is set by hand"),
        ("log_rate(optimizer, epoch)", "`log_rate` gets `optimizer`, and may change it"),
        ("log_norms(model)", ""),
        ("log_first_rate(optimizer)", "`log_first_rate` gets `optimizer`, and may change it"),
        ("show(model)", "`show` gets `model`, and may change it"),
        ("show_all(model)", "`show_all` gets `model`, and may change it"),
        ("show_own()", "`show_own` changes what is trained, or how"),
        ("log_state(model)", "`log_state` gets `model`, and may change it"),
        ("show_texts(model)", ""),
        (f"{GROUPS}rates.append(group['lr'])", ""),
        ("for p, q in zip(start, model.parameters()):\n            p.copy_(q)", ""),
        ("model.config.use_cache = False", ""),
        ("model.generation_config.max_length = 9", ""),
    ],
)
def test_weights_and_groups_that_are_changed_by_hand_are_named(line: str, said: str) -> None:
    _, loop = read(HELPERS + STANDARD.replace("        optimizer.zero", f"        {line}\n        optimizer.zero"))
    reasons = [obstacle.reason for obstacle in loop.obstacles]
    assert len(reasons) == bool(said) and all(said in reason for reason in reasons), reasons
