"""Messages with an image, a sound or a video, which a model of text alone answers without it.

messages = [{"role": "user", "content": [{"type": "image", "image": url}, {"type": "text", "text": "What is it?"}]}]
inputs = tokenizer.apply_chat_template(messages, ...)    the template writes the image's token, and no more
model.generate(**inputs)

The source's processor reads them beside a multimodal model (Gemma 3 and 4); Tunix's model is of text.
"""

from __future__ import annotations

import ast

import libcst as cst

from porter.packs.api import Phase, Porting, step

PART_OF = "TP311"
SEEN = ("image", "audio", "video", "image_url", "input_audio")
WHERE = {"url", "path", "base64"}  # where else transformers' processors look for what is shown


@step(Phase.ANSWER, of="trainer", reads=("claimed uses",))
def say_unseen_messages(porting: Porting) -> None:
    """One line at the first part of a message that isn't text, where the script generates."""
    module = porting.module
    if porting.trainer is None or "generate(" not in module.text or not any(kind in module.text for kind in SEEN):
        return
    parts = {node: kind for node in module.parents if isinstance(node, cst.Dict) and (kind := _kind_of(node))}
    if not parts:
        return
    named = " and ".join(sorted({*parts.values()}))
    message = f"Messages with {named}: Tunix's model is of text alone, and the port answers without what they show."
    first = min(parts, key=lambda node: module.span(node)[0])
    fix = "Ask the trained model about them on the GPU, or leave these lines out."
    porting.find(PART_OF, "warning", message, fix, *module.location(first))


def _kind_of(node: cst.Dict) -> str:
    """`image` of `{"type": "image", "image": url}`, a part of a message; "" of anything else."""
    held = {}
    for element in node.elements:
        if isinstance(element, cst.DictElement) and isinstance(element.key, cst.SimpleString):
            held[ast.literal_eval(element.key.value)] = element.value
    kind = held.get("type")
    if not isinstance(kind, cst.SimpleString):
        return ""
    said = str(ast.literal_eval(kind.value))
    return said if said in SEEN and (said in held or WHERE & held.keys() or len(held) == 1) else ""
