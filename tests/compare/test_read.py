"""Every kind of log, read to the same lines; and what is wrong with one, in one line."""

from __future__ import annotations

import csv
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from porter.compare.exact import check_settings
from porter.compare.logs.log import Log
from porter.compare.logs.read import read, read_logs
from porter.errors import InputError

from .made import EPOCH, every, lines, state


def one(path: Path, tmp_path: Path) -> Log:
    """The log, read beside one that has its epochs."""
    return read_logs(path, state(tmp_path / "beside.json", lines()))[0]


def losses(log: Log) -> dict[int, float]:
    return {line.step: line.loss.number for line in log.lines}


def printed(history: list[dict[str, Any]], *, bars: bool) -> str:
    text = "loading\n{'not': 'ours'}\n"
    for line in history:
        shown = {name: f"{value:.4g}" for name, value in line.items() if name not in ("step", "num_tokens")}
        text += f"\r                \r{shown}\n"
        if bars:
            text += f"\r 10%|#   | {line['step']}/200 [00:10<00:20,  1.85s/it]"
    return text + "\n{'train_runtime': '12', 'train_loss': '3.1', 'epoch': '2'}\n"


def test_a_state_file_its_folder_and_its_last_checkpoint(tmp_path: Path) -> None:
    history = every(lines(), 10)
    path = state(tmp_path / "out/trainer_state.json", [*history, {"eval_loss": 3.0, "step": 200}], max_steps=200)
    expected = {line["step"]: line["loss"] for line in history}
    assert losses(one(path, tmp_path)) == losses(one(path.parent, tmp_path)) == expected
    state(tmp_path / "run/checkpoint-100/trainer_state.json", history[:10])
    state(tmp_path / "run/checkpoint-200/trainer_state.json", history)
    log = one(tmp_path / "run", tmp_path)
    assert losses(log) == expected
    assert [(line.start, line.step) for line in log.lines][:2] == [(0, 10), (10, 20)]


@pytest.mark.parametrize("bars", [True, False], ids=["by the bars", "by the epochs"])
def test_printed_lines_get_their_steps(tmp_path: Path, bars: bool) -> None:
    history = every(lines(), 10)
    path = tmp_path / "run.log"
    path.write_text(printed(history, bars=bars))
    log = one(path, tmp_path)
    assert [line.step for line in log.lines] == [line["step"] for line in history]
    for line, known in zip(log.lines, history, strict=True):
        assert abs(line.loss.number - known["loss"]) <= line.loss.half <= 5e-4


def test_tunixs_own_lines(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("I1 Train step 1 training loss: 3.500000  - x\nI1 Train step 2 training loss: 3.250000  - x\n")
    assert losses(one(path, tmp_path)) == {1: 3.5, 2: 3.25}


def test_tensorboards_events(tmp_path: Path) -> None:
    tensorboard = pytest.importorskip("tensorboardX")
    history = every(lines(), 10)
    with tensorboard.SummaryWriter(str(tmp_path / "runs/a")) as writer:
        writer.add_text("args", json.dumps({"weight_decay": 0.01, "max_grad_norm": 1.0}))
        for line in history:
            for name in ("loss", "learning_rate", "epoch", "grad_norm"):
                writer.add_scalar(f"train/{name}", line[name], line["step"])
            writer.add_scalar("eval/loss", 9.0, line["step"])
    log = one(tmp_path / "runs", tmp_path)
    assert [line.step for line in log.lines] == list(range(10, 201, 10))
    for line, known in zip(log.lines, history, strict=True):
        assert abs(line.loss.number - known["loss"]) <= line.loss.half
    assert log.settings == {"weight_decay": 0.01, "max_grad_norm": 1.0}
    [file] = (tmp_path / "runs/a").iterdir()
    file.write_bytes(file.read_bytes()[:-7])
    assert "ends in the middle" in one(file, tmp_path).notes[0]
    (tmp_path / "runs/b").mkdir()
    (tmp_path / "runs/b/events.out.tfevents.1").write_bytes(file.read_bytes())
    with pytest.raises(InputError, match="holds 2 runs"):
        read(tmp_path / "runs")


def test_wandbs_file(tmp_path: Path) -> None:
    """Framed as LevelDB's log, a record in two parts across its blocks."""
    messages = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    data = b":W&B" + struct.pack("<HB", 0xBEE1, 0)
    records = []
    for line in every(lines(), 10):
        record = messages.Record()
        for name, value in (("train/loss", line["loss"]), ("train/global_step", line["step"])):
            item = record.history.item.add()
            item.key, item.value_json = name, json.dumps(value)
        item = record.history.item.add()
        item.key, item.value_json = "text", json.dumps("x" * 5000)
        records.append(record.SerializeToString())
    for record in records:
        kind = 1
        while record or kind == 1:
            room = 32768 - len(data) % 32768
            if room < 7:
                data += b"\0" * room
                continue
            part, record = record[: room - 7], record[room - 7 :]
            data += (
                struct.pack(
                    "<IHB", 0, len(part), {(1, False): 1, (1, True): 2, (3, True): 3, (3, False): 4}[kind, bool(record)]
                )
                + part
            )
            kind = 3
            if not record:
                break
    (tmp_path / "run-1.wandb").write_bytes(data)
    assert [line.step for line in one(tmp_path / "run-1.wandb", tmp_path).lines] == list(range(10, 201, 10))


def test_exported_tables(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["train/global_step", "run - train/loss", "run - train/loss__MIN", "run - train/loss__MAX"])
        for line in every(lines(), 10):
            table.writerow([line["step"], line["loss"], 0, 9])
    assert losses(one(path, tmp_path)) == {line["step"]: line["loss"] for line in every(lines(), 10)}
    path.write_text("Step,a - train/loss\n0,3.0\n1,2.9\n")
    with pytest.raises(InputError, match="counts W&B's log calls"):
        read(path)
    path.write_text("train/global_step,a - train/loss,b - train/loss\n1,3.0,2.0\n")
    with pytest.raises(InputError, match="the losses of 2 runs"):
        read(path)


@pytest.mark.parametrize(
    "first", ["Training with loss_type=nll, beta=0.1", "step, the loss that is printed", "loss,accuracy", '"step, loss']
)
def test_output_whose_first_line_has_a_comma_is_no_table(tmp_path: Path, first: str) -> None:
    path = tmp_path / "run.log"
    path.write_text(f"{first}\n{printed(every(lines(), 10), bars=True)}")
    assert read(path).kind == "printed lines" and len(one(path, tmp_path).lines) == 20


@pytest.mark.parametrize(
    "header", ["step,loss", '"train/global_step","a - train/loss"', "_step,train/loss\r", "epoch , Step, loss "]
)
def test_a_table_is_known_by_its_header(tmp_path: Path, header: str) -> None:
    path = tmp_path / "export.txt"
    path.write_text(f"{header}\n" + "".join(f"{step},{step},{4.5 - step}\n" for step in (1, 2, 3)))
    assert read(path).kind == "CSV"


def test_mlflows_files(tmp_path: Path) -> None:
    run = tmp_path / "mlruns/0/abc"
    (run / "metrics").mkdir(parents=True)
    (run / "params").mkdir()
    (run / "params/weight_decay").write_text("0.01")
    for name in ("loss", "learning_rate", "epoch"):
        (run / "metrics" / name).write_text(
            "".join(f"17000 {line[name]!r} {line['step']}\n" for line in every(lines(), 10))
        )
    log = one(tmp_path / "mlruns", tmp_path)
    assert losses(log) == {line["step"]: line["loss"] for line in every(lines(), 10)}
    assert log.settings == {"weight_decay": 0.01} and log.lines[0].values["epoch"].number == 10 / EPOCH
    (run / "params/max_grad_norm").write_text("1.0")
    (run / "params/deepspeed").write_text("None")
    assert one(run, tmp_path).settings == {"weight_decay": 0.01, "max_grad_norm": 1.0}
    (run / "params/deepspeed").write_text("zero2.json")
    assert one(run, tmp_path).settings == {"weight_decay": 0.01}, "DeepSpeed clips, by a config that isn't here"


def mlflow(run: Path, history: list[dict[str, Any]]) -> Path:
    (run / "metrics").mkdir(parents=True)
    for name in ("loss", "epoch"):
        text = "".join(f"17000 {line[name]!r} {line['step']}\n" for line in history)
        (run / "metrics" / name).write_text(text)
    return run


def test_a_restarted_run_of_mlflow_keeps_what_came_later(tmp_path: Path) -> None:
    history = every(lines(), 10)
    again = [{**line, "loss": line["loss"] * 1.01} for line in history[8:]]
    log = one(mlflow(tmp_path / "restarted", [*history[:12], *again]), tmp_path)
    assert log.notes == ("the run was restarted: from step 90 on the later lines count",)
    assert losses(log) == {line["step"]: line["loss"] for line in [*history[:8], *again]}
    assert log.lines[-1].values["epoch"].number == history[-1]["epoch"]


def test_a_number_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    """The last line of a text that was copied while it was written: half of a loss or a step is another one."""
    history = every(lines(), 10)
    table = "train/global_step,a - train/loss\n" + "".join(f"{line['step']},{line['loss']}\n" for line in history)
    tunix = "".join(f"Train step {line['step']} training loss: {line['loss']:.6f}  - x\n" for line in history)
    for name, text in (("cut.csv", table[:-14]), ("cut.log", tunix[: tunix.rindex("loss: ") + 8])):
        path = tmp_path / name
        path.write_text(text)
        assert list(losses(one(path, tmp_path))) == [line["step"] for line in history[:-1]], name
    assert "has no end and was left out" in one(tmp_path / "cut.csv", tmp_path).notes[0]
    run = mlflow(tmp_path / "run", history)
    metric = run / "metrics/loss"
    metric.write_text(metric.read_text()[:-2])  # step 20, of 200
    log = one(run, tmp_path)
    assert losses(log) == {line["step"]: line["loss"] for line in history[:-1]}
    assert log.notes == ("loss: its last line has no end and was left out: the file was cut off there",)


@pytest.mark.parametrize("behind", [0, 1, 5])
def test_two_runs_that_wrote_into_one_log_are_none(tmp_path: Path, behind: int) -> None:
    """The second one `behind` so many lines: no run is restarted at every step."""
    first, second = every(lines(), 10), every(lines(1), 10)
    mixed = [line for pair in zip(first[behind:], second, strict=False) for line in pair]
    path = state(tmp_path / "mixed.json", [*first[:behind], *mixed, *second[len(first) - behind :]])
    with pytest.raises(InputError, match="holds two runs"):
        one(path, tmp_path)
    one(state(tmp_path / "thrice.json", [*first[:6], *second[4:9], *first[8:12], *second[11:]]), tmp_path)


def test_a_folder_of_wandbs_runs(tmp_path: Path) -> None:
    for name in ("offline-run-1-a", "offline-run-2-b"):
        (tmp_path / "wandb" / name).mkdir(parents=True)
        (tmp_path / "wandb" / name / "run.wandb").write_bytes(b":W&B" + struct.pack("<HB", 0xBEE1, 0))
    with pytest.raises(InputError, match="holds 2 runs of W&B"):
        read(tmp_path / "wandb")


def test_what_is_put_right_is_said(tmp_path: Path) -> None:
    history = every(lines(), 10)
    double = state(tmp_path / "double.json", [*history[:5], history[4], *history[5:]])
    assert one(double, tmp_path).notes == ("1 line was there twice",)
    shuffled = state(tmp_path / "shuffled.json", [*history[10:], *history[:10]])
    assert "another order" in one(shuffled, tmp_path).notes[0]
    again = [{**line, "loss": line["loss"] * 1.01} for line in history[8:]]
    restarted = state(tmp_path / "restarted.json", [*history[:12], *again])
    log = one(restarted, tmp_path)
    assert "restarted: from step 90 on the later lines count" in log.notes[0]
    assert losses(log)[90] == again[0]["loss"] and losses(log)[80] == history[7]["loss"]
    assert [(line.start, line.step) for line in log.lines] == [(n, n + 10) for n in range(0, 200, 10)]


def test_what_is_missing_is_untold(tmp_path: Path) -> None:
    history = every(lines(), 10)
    gaps = one(state(tmp_path / "gaps.json", [*history[:5], *history[7:]]), tmp_path)
    assert gaps.untold == ("steps 51-70: no line, the log has gaps",)
    assert gaps.lines[5].start == 70
    cut = one(state(tmp_path / "cut.json", history[:9], max_steps=200), tmp_path)
    assert cut.untold == ("steps 91-200: the log ends before the run's 200 steps",)
    odd = [*history[:3], {**history[3], "loss": float("nan")}, *history[4:]]
    log = one(state(tmp_path / "nan.json", odd), tmp_path)
    assert log.not_finite == (40,) and "steps 40: the loss isn't finite" in log.untold[0]


def test_the_first_step_alone_and_rounded_values(tmp_path: Path) -> None:
    rounded = [{**line, "loss": round(line["loss"], 4), "epoch": round(line["epoch"], 2)} for line in lines()]
    log = one(state(tmp_path / "first.json", [rounded[0], *every(rounded, 10)]), tmp_path)
    assert [(line.start, line.step) for line in log.lines][:3] == [(0, 1), (1, 10), (10, 20)]
    older = one(state(tmp_path / "older.json", rounded), tmp_path)
    assert older.lines[3].loss.half == 5e-5 and older.lines[3].values["epoch"].half == 0.005


def test_the_first_step_and_two_more_lines(tmp_path: Path) -> None:
    history = lines()
    log = one(state(tmp_path / "short.json", [history[0], *every(history[:20], 10)], max_steps=25), tmp_path)
    assert [(line.start, line.step) for line in log.lines] == [(0, 1), (1, 10), (10, 20)] and log.untold == ()


def test_a_long_log_is_read_in_time(tmp_path: Path) -> None:
    """100,000 steps, each twice, and a line of a million digits."""
    import time

    from porter.compare.run import compare

    history = [{"loss": 1.0 + step % 7, "step": step} for step in range(1, 100_001) for _ in range(2)]
    path = state(tmp_path / "long.json", history)
    started = time.process_time()
    assert len(compare(path, path).windows) == 100_000
    (tmp_path / "digits.log").write_text("1" * 1_000_000 + "/")
    with pytest.raises(InputError, match="no line of training"):
        read(tmp_path / "digits.log")
    assert time.process_time() - started < 30


BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"  \n", "is empty"),
    "binary": (bytes(range(256)) * 50, "holds binary data"),
    "cut off": (b'{"log_history": [{"loss": 1.0, "step": 1}, {"lo', "ends in the middle"),
    "nothing of training": (b"hello\nworld\n", "holds no line of training"),
    "no loss": (b'{"log_history": [{"eval_loss": 1.0, "step": 1}]}', "holds no line of training with a loss"),
    "another JSON": (b'{"log_history": 3}', "has no log_history"),
    "deep": (b'{"log_history": ' + b"[" * 100_000, "trainer_state.json"),
    "two runs": (
        json.dumps({"log_history": [{"loss": 1.0 + r / 9, "step": s} for r in (0, 1) for s in (1, 2, 3)]}).encode(),
        "holds two runs: behind step 3 it starts again at step 1",
    ),
    "no steps": (
        b"{'loss': '3.1', 'learning_rate': '0.1'}\n{'loss': '3.0', 'learning_rate': '0.1'}\n",
        "have no steps",
    ),
    "all nan": (b'{"log_history": [{"loss": NaN, "step": 1}, {"loss": NaN, "step": 2}]}', "has no finite loss"),
    "steps without end": (b"step,loss\ninf,1.0\nnan,2.0\n", "holds no line of training with a loss"),
    "steps that are text": (b'{"log_history": [{"loss": 1.0, "step": "x"}]}', "have no steps"),
    "events of nobody": (b"\x05\0\0\0\0\0\0\0\1\1\1\1\xff\xff\xff\xff\xff\1\1\1\1", "binary data"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_one_clear_line(tmp_path: Path, what: str) -> None:
    content, said = BAD[what]
    path = tmp_path / ("bad.json" if content[:1] == b"{" and b'"' in content else "bad.log")
    path.write_bytes(content)
    with pytest.raises(InputError) as failure:
        one(path, tmp_path)
    assert said in str(failure.value) and "\n" not in str(failure.value)


def test_a_pickle_beside_a_log_runs_nothing(tmp_path: Path) -> None:
    import pickle
    import zipfile

    class Evil:
        def __reduce__(self) -> Any:
            import os

            return (os.system, (f"touch {tmp_path}/ran",))

    path = state(tmp_path / "out/trainer_state.json", lines())
    with zipfile.ZipFile(path.parent / "training_args.bin", "w") as archive:
        archive.writestr("training_args/data.pkl", pickle.dumps(Evil()))
    assert one(path, tmp_path).settings == {}
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("config", "kept", "expected"),
    [
        ({"zero_optimization": {"stage": 2}}, "all", 0.0),
        ({"zero_optimization": {"stage": 2}, "gradient_clipping": "auto"}, "all", 1.0),
        ({"zero_optimization": {"stage": 2}, "gradient_clipping": 0.5}, "all", 0.5),
        ({"zero_optimization": {"stage": 2}}, "plugin", 0.0),
        ({"zero_optimization": {"stage": 2}}, "dict", 0.0),
        ({"zero_optimization": {"stage": 2}}, "path", None),
        (None, "none", 1.0),
    ],
)
def test_deepspeed_clips_by_its_own_config(tmp_path: Path, config: Any, kept: str, expected: float | None) -> None:
    """Transformers' arguments as they are saved, with accelerate's own objects of that config in them."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    configs = pytest.importorskip("accelerate.utils.deepspeed")
    plugins = pytest.importorskip("accelerate.utils")

    args = transformers.TrainingArguments(output_dir=str(tmp_path), report_to="none", weight_decay=0.01, use_cpu=True)
    if config is not None:
        made = configs.HfDeepSpeedConfig(config)
        args.deepspeed = {"all": "zero2.json", "path": "zero2.json", "dict": config, "plugin": None}[kept]
        if kept == "all":
            args.hf_deepspeed_config = made
        if kept in ("all", "plugin"):
            args.deepspeed_plugin = plugins.DeepSpeedPlugin(hf_ds_config=made)
    path = state(tmp_path / "out/trainer_state.json", lines())
    torch.save(args, path.parent / "training_args.bin")
    settings = one(path, tmp_path).settings
    assert settings.get("max_grad_norm") == expected and settings["weight_decay"] == 0.01
    port = {"max_grad_norm": 0.0 if expected is None else expected, "weight_decay": 0.01, "r": 8}
    tpu = state(tmp_path / "tpu.json", lines(), port=port)
    check = check_settings(*read_logs(path, tpu))
    assert check.status == "equal"
    assert ("max_grad_norm" in check.detail.partition("only one log tells")[2]) == (expected is None)
