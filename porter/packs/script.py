"""What a step of a pack asks of a script: names and values, functions and calls, uses of the trainer and the model.

A `Module` is the script's syntax tree, with the source span, the scope and the import name of every node. docs/packs.md
documents each name; those that aren't listed here may change with any release.
"""

from __future__ import annotations

from ..engine.answering.given_to_unknown_code import argument_with
from ..engine.dating.asked.places import release_of
from ..engine.dating.evidence.days import last_day, said_last_day
from ..engine.dating.evidence.ids_as_lists import calls_counted
from ..engine.dating.release import date, written_before
from ..engine.loops.unread.started import STARTED, Started, trains_on_gpu
from ..engine.script.dead_blocks import is_dead, is_false
from ..engine.script.fill_from_tables import plain_version
from ..engine.script.flow import (
    AGAIN,
    binding_origins,
    bound_value,
    is_same,
    makes_pair,
    origins,
    put_in_again,
    without_placement,
)
from ..engine.script.following.base_casts import type_asked
from ..engine.script.following.log_functions import only_logs
from ..engine.script.following.reaching import reaching
from ..engine.script.following.rebound import is_set_between
from ..engine.script.following.uses_behind import MODEL_CASTS, MODEL_IDLE, uses_behind
from ..engine.script.following.where_models_come_from import left_file
from ..engine.script.seeds import DRAWS
from ..engine.script.sites import assigned_name, indentation, shortened, shown, small_statement
from ..engine.script.uses_of_training import Use, role_uses
from ..engine.script.where_values_go import followed, held_by, unwraps
from ..engine.settling.decisions import decide as decide_condition
from ..engine.settling.kept_branch import keep_branch
from ..engine.settling.unused import drop_device_maps
from ..engine.tokens.numpy_tokens import IDS_ASKED
from ..engine.tokens.numpy_tokens import settle_call as settle_tokens
from ..engine.tokens.tokenizers import LOADS as TOKENIZER_LOADS
from ..engine.tokens.tokenizers import is_tokenizer, tokenizer_load, tokenizer_wrapper
from ..releases.history import history
from ..runtime.facts.families import find_family
from ..runtime.facts.family import UnknownFamily
from ..runtime.facts.field_tables import version_key
from ..runtime.facts.stored_formats import base_name
from ..source.calls import (
    argument_of,
    calls_of,
    function_around,
    named_arguments,
    parameter_of,
    returned,
    set_by_name,
)
from ..source.conditions import bare, in_two_branches, is_elif, left_on_gpu, may_have_left
from ..source.dictionaries.items import dict_items
from ..source.held_answers import asks_for_gpu
from ..source.indexes import index_of, text_index
from ..source.machine.gpu_of_run import asks_capability, gpu_of_run, speaks_of_gpu
from ..source.machine.library_constants import constants
from ..source.module import Module, flatten
from ..source.project.named_files import named_file, named_module
from ..source.project.usual.model_names import usual_texts
from ..source.project.usual.ways import imports_always, imports_usually, usual_way
from ..source.read_value import read_value
from ..source.scopes import Binding, Scope, inside
from ..source.values import Unknown, evaluate
from ..text.edits import line_end, line_start, within
from ..text.import_lines import names_in

__all__ = [
    "AGAIN",
    "DRAWS",
    "IDS_ASKED",
    "MODEL_CASTS",
    "MODEL_IDLE",
    "STARTED",
    "TOKENIZER_LOADS",
    "Binding",
    "Module",
    "Scope",
    "Started",
    "Unknown",
    "UnknownFamily",
    "Use",
    "argument_of",
    "argument_with",
    "asks_capability",
    "asks_for_gpu",
    "assigned_name",
    "bare",
    "base_name",
    "binding_origins",
    "bound_value",
    "calls_counted",
    "calls_of",
    "constants",
    "date",
    "decide_condition",
    "dict_items",
    "drop_device_maps",
    "evaluate",
    "find_family",
    "flatten",
    "followed",
    "function_around",
    "gpu_of_run",
    "held_by",
    "history",
    "imports_always",
    "imports_usually",
    "in_two_branches",
    "indentation",
    "index_of",
    "inside",
    "is_dead",
    "is_elif",
    "is_false",
    "is_same",
    "is_set_between",
    "is_tokenizer",
    "keep_branch",
    "last_day",
    "left_file",
    "left_on_gpu",
    "line_end",
    "line_start",
    "makes_pair",
    "may_have_left",
    "named_arguments",
    "named_file",
    "named_module",
    "names_in",
    "only_logs",
    "origins",
    "parameter_of",
    "plain_version",
    "put_in_again",
    "reaching",
    "read_value",
    "release_of",
    "returned",
    "role_uses",
    "said_last_day",
    "set_by_name",
    "settle_tokens",
    "shortened",
    "shown",
    "small_statement",
    "speaks_of_gpu",
    "text_index",
    "tokenizer_load",
    "tokenizer_wrapper",
    "trains_on_gpu",
    "type_asked",
    "unwraps",
    "uses_behind",
    "usual_texts",
    "usual_way",
    "version_key",
    "within",
    "without_placement",
    "written_before",
]
