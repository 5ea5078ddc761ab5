"""`get_chat_template`: the chat templates that Unsloth's function of this name puts into a tokenizer.

Written for conversations of texts by system, user and assistant, of which they make the same text as Unsloth's; a
conversation with tools or images is refused when it is rendered. Gemma 3's takes texts in parts, too. Those templates
are here that change nothing of a tokenizer but its template: of Gemma 3 and 4, Llama 3.1 to 3.3 and Qwen 2.5.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

_ONLY_TEXT = """
{%- for message in messages %}
    {%- set known = message['role'] in ['system', 'user', 'assistant'] and not message['tool_calls'] %}
    {%- if not known or message['content'] is not string %}
        {{- raise_exception("this template renders texts of system, user and assistant") }}
    {%- endif %}
{%- endfor %}
{%- if tools %}{{- raise_exception("this template renders no tools") }}{%- endif %}
"""

_TEXT_PARTS = """
{%- for message in messages %}
    {%- set known = message['role'] in ['system', 'user', 'assistant'] and not message['tool_calls'] %}
    {%- set parts = [] if message['content'] is string else message['content'] %}
    {%- if not known or parts | rejectattr('type', 'equalto', 'text') | list %}
        {{- raise_exception("this template renders texts of system, user and assistant") }}
    {%- endif %}
{%- endfor %}
{%- if tools %}{{- raise_exception("this template renders no tools") }}{%- endif %}
"""

_GEMMA = """
{%- macro said(content) %}
    {%- if content is string %}{{- content | trim }}
    {%- else %}{%- for part in content %}{{- part['text'] | trim }}{%- endfor %}{%- endif %}
{%- endmacro %}
{{- bos_token }}
{%- set first = messages[0]['content'] if messages[0]['content'] is string else messages[0]['content'][0]['text'] %}
{%- set system = first + '\\n\\n' if messages[0]['role'] == 'system' else '' %}
{%- set turns = messages[1:] if messages[0]['role'] == 'system' else messages %}
{%- for message in turns %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif %}
    {{- '<start_of_turn>' + ('model' if message['role'] == 'assistant' else message['role']) + '\\n' }}
    {{- (system if loop.first else '') + said(message['content']) + '<end_of_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<start_of_turn>model\\n' }}{%- endif %}
"""

_LLAMA = """
{%- macro turn(role, content) %}
    {{- '<|start_header_id|>' + role + '<|end_header_id|>\\n\\n' + content + '<|eot_id|>' }}
{%- endmacro %}
{%- set first = messages[0]['role'] == 'system' %}
{%- set date = date_string if date_string is defined else '26 July 2024' %}
{%- set preamble = 'Cutting Knowledge Date: December 2023\\nToday Date: ' + date + '\\n\\n' %}
{{- bos_token + turn('system', preamble + (messages[0]['content'] if first else '')) }}
{%- for message in (messages[1:] if first else messages) %}{{- turn(message['role'], message['content']) }}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}
"""

_GEMMA_4 = """
{%- macro spoken(text) %}
    {%- for part in text.split('<channel|>') %}{{- part.split('<|channel>')[0] }}{%- endfor %}
{%- endmacro %}
{%- if enable_thinking %}{{- raise_exception("this template renders no thinking") }}{%- endif %}
{%- set first = messages[0]['role'] == 'system' %}
{{- bos_token + ('<|turn>system\n' + messages[0]['content'] | trim + '<turn|>\n' if first else '') }}
{%- for message in (messages[1:] if first else messages) %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif %}
    {%- set answers = message['role'] == 'assistant' %}
    {{- '<|turn>' + ('model' if answers else message['role']) + '\n' }}
    {{- (spoken(message['content']) if answers else message['content']) | trim + '<turn|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|turn>model\n' }}{%- endif %}
"""

_QWEN = """
{%- if messages[0]['role'] != 'system' %}
    {{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""

TEMPLATES: Mapping[str, str] = {
    **dict.fromkeys(("gemma-3", "gemma3"), _GEMMA),
    **dict.fromkeys(("gemma-4", "gemma4"), _GEMMA_4),
    **dict.fromkeys(("llama-3.1", "llama-31", "llama-3.2", "llama-3.3", "llama-32", "llama-33"), _LLAMA),
    **dict.fromkeys(("qwen-2.5", "qwen-25", "qwen25", "qwen2.5"), _QWEN),
}
"""Unsloth's names of the templates that are here."""


def get_chat_template(
    tokenizer: Any, chat_template: str, *, map_eos_token: bool = True, system_message: str | None = None
) -> Any:
    """A copy of the tokenizer with Unsloth's template of that name.

    ValueError for a template that isn't here. `map_eos_token` does nothing to these templates; a `system_message` that
    would change one is refused.
    """
    if chat_template not in TEMPLATES:
        raise ValueError(f"chat_template={chat_template!r} is not one of {', '.join(TEMPLATES)}")
    if system_message is not None:
        raise ValueError("get_chat_template(system_message=...) is not ported: put a system message into the rows")
    made = copy.deepcopy(tokenizer)
    template = TEMPLATES[chat_template]
    made.chat_template = (_TEXT_PARTS if template is _GEMMA else _ONLY_TEXT) + template
    return made
