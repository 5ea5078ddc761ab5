"""Functions that gather a trainer's weights and save them themselves, as the Stanford Alpaca line of scripts does.

def safe_save_model_for_hf_trainer(trainer, output_dir):
    state_dict = trainer.model.state_dict()
    if trainer.args.should_save:
        trainer._save(output_dir, state_dict={key: value.cpu() for key, value in state_dict.items()})
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, saved_tokenizer, step
from porter.packs.script import role_uses
from porter.packs.writing import named_at

PART_OF = "TP310"


@step(Phase.ANSWER, of="trainer", fills=("claimed uses",))
def replace_saving_functions(porting: Porting) -> None:
    """A function of the file that gets the trainer to gather its weights and `_save` them saves Tunix's model,
    and the tokenizer that the Trainer saves beside it."""
    module = porting.module
    for use in role_uses(porting, "trainer"):
        function = next((node for node in module.ancestors(use.name) if isinstance(node, cst.FunctionDef)), None)
        if use.match != "@trainer._save()" or function is None:
            continue
        if not isinstance(use.outer, cst.Call) or not isinstance(use.name, cst.Name):
            continue
        parameters = {parameter.name.value for parameter in (*function.params.params, *function.params.kwonly_params)}
        folder = next((arg.value for arg in use.outer.args if arg.keyword is None), None)
        if not isinstance(folder, cst.Name) or not isinstance(function.body, cst.IndentedBlock):
            continue
        if not {use.name.value, folder.value} <= parameters:
            continue
        body = list(function.body.body)
        if function.get_docstring() is not None:
            body = body[1:]
        start, end = module.span(body[0])[0], module.span(body[-1])[1]
        with named_at(porting, use) as trainer:
            tokenizer = saved_tokenizer(porting, use.outer)
        beside = f", tokenizer={tokenizer}" if tokenizer else ""
        saved = f"{porting.rt('save_model')}({trainer}.model, {folder.value}{beside})"
        porting.edit(start, end, saved, PART_OF, "the weights as transformers writes them, gathered from the mesh")
