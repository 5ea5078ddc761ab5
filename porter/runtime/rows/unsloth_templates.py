"""`get_chat_template`: the chat templates that Unsloth's function of this name puts into a tokenizer.

Written anew for what the models' formats say, tools, their calls and answers, and parts of a message included: they
make the same text as Unsloth's of any conversation, and what those can't render ends here, too. Those templates are
here that change nothing of a tokenizer but its template: of Gemma 3 and 4, Llama 3 to 3.3 and Qwen 2.5.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

_ALTERNATE = """
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif %}
"""

_GEMMA = (
    """
{%- macro said(content) %}
    {%- if content is string %}{{- content | trim }}
    {%- elif content is iterable %}
        {%- for part in content %}
            {%- if part['type'] == 'image' %}{{- '<start_of_image>' }}
            {%- elif part['type'] == 'text' %}{{- part['text'] | trim }}{%- endif %}
        {%- endfor %}
    {%- else %}{{- raise_exception("Invalid content type") }}{%- endif %}
{%- endmacro %}
{{- bos_token }}
{%- set first = messages[0]['role'] == 'system' %}
{%- set given = messages[0]['content'] %}
{%- set system = (given if given is string else given[0]['text']) + '\\n\\n' if first else '' %}
{%- for message in (messages[1:] if first else messages) %}"""
    + _ALTERNATE
    + """
    {{- '<start_of_turn>' + ('model' if message['role'] == 'assistant' else message['role']) + '\\n' }}
    {{- (system if loop.first else '') + said(message['content']) + '<end_of_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<start_of_turn>model\\n' }}{%- endif %}
"""
)

_LLAMA_3 = """
{{- bos_token }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
    {{- message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}
"""

_LLAMA = """
{%- macro header(role) %}{{- '<|start_header_id|>' + role + '<|end_header_id|>\\n\\n' }}{%- endmacro %}
{%- macro listed(functions) %}
    {{- 'Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}.' }}
    {{- 'Do not use variables.\\n\\n' }}
    {%- for function in functions %}{{- function | tojson(indent=4) + '\\n\\n' }}{%- endfor %}
{%- endmacro %}
{%- set functions = custom_tools if custom_tools is defined else tools if tools is defined else none %}
{%- set beside_user = tools_in_user_message if tools_in_user_message is defined else true %}
{%- set first = messages[0]['role'] == 'system' %}
{%- set turns = messages[1:] if first else messages %}
{{- bos_token }}
{{- header('system') }}
{%- if builtin_tools is defined or functions is not none %}{{- 'Environment: ipython\\n' }}{%- endif %}
{%- if builtin_tools is defined %}
    {{- 'Tools: ' + builtin_tools | reject('equalto', 'code_interpreter') | join(', ') + '\\n\\n' }}
{%- endif %}
{{- 'Cutting Knowledge Date: December 2023\\n' }}
{{- 'Today Date: ' + (date_string if date_string is defined else '26 July 2024') + '\\n\\n' }}
{%- if functions is not none and not beside_user %}
    {{- 'You have access to the following functions. ' }}
    {{- 'To call a function, please respond with JSON for a function call.' + listed(functions) }}
{%- endif %}
{{- messages[0]['content'] if first else '' }}
{{- '<|eot_id|>' }}
{%- if functions is not none and beside_user %}
    {%- if not turns %}
        {{- raise_exception("Cannot put tools in the first user message when there's no first user message!") }}
    {%- endif %}
    {{- header('user') + 'Given the following functions, please respond with a JSON for a function call ' }}
    {{- 'with its proper arguments that best answers the given prompt.\\n\\n' + listed(functions) }}
    {{- turns[0]['content'] + '<|eot_id|>' }}
    {%- set turns = turns[1:] %}
{%- endif %}
{%- for message in turns %}
    {%- if 'tool_calls' in message %}
        {%- if message['tool_calls'] | length != 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {%- set called = message['tool_calls'][0]['function'] %}
        {{- header('assistant') }}
        {%- if builtin_tools is defined and called['name'] in builtin_tools %}
            {{- '<|python_tag|>' + called['name'] + '.call(' }}
            {%- for name, value in called['arguments'] | items %}
                {{- name + '="' + value + '"' + (', ' if not loop.last else '') }}
            {%- endfor %}
            {{- ')' }}
        {%- else %}
            {{- '{"name": "' + called['name'] + '", "parameters": ' + called['arguments'] | tojson + '}' }}
        {%- endif %}
        {{- '<|eom_id|>' if builtin_tools is defined else '<|eot_id|>' }}
    {%- elif message['role'] in ['ipython', 'tool'] %}
        {{- header('ipython') }}
        {{- message['content'] | tojson if message['content'] is iterable else message['content'] }}
        {{- '<|eot_id|>' }}
    {%- else %}
        {{- header(message['role']) + message['content'] + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- header('assistant') }}{%- endif %}
"""

_GEMMA_4 = (
    """
{%- macro spoken(text) %}
    {%- for part in text.split('<channel|>') %}{{- part.split('<|channel>')[0] }}{%- endfor %}
{%- endmacro %}
{%- macro said(content, answers) %}
    {%- if content is string %}{{- (spoken(content) if answers else content) | trim }}
    {%- elif content is iterable %}
        {%- for part in content %}
            {%- if part['type'] in ['audio', 'image', 'video'] %}{{- '<|' + part['type'] + '|>' }}
            {%- elif part['type'] == 'text' %}{{- said(part['text'] | string, answers) }}{%- endif %}
        {%- endfor %}
    {%- else %}{{- raise_exception("Invalid content type") }}{%- endif %}
{%- endmacro %}
{%- set thinks = enable_thinking is defined and enable_thinking %}
{%- set first = messages[0]['role'] in ['system', 'developer'] %}
{{- bos_token }}
{%- if first or thinks %}
    {{- '<|turn>system\\n' + ('<|think|>\\n' if thinks else '') }}
    {{- messages[0]['content'] | trim if first else '' }}
    {{- '<turn|>\\n' }}
{%- endif %}
{%- for message in (messages[1:] if first else messages) %}"""
    + _ALTERNATE
    + """
    {%- set answers = message['role'] == 'assistant' %}
    {{- '<|turn>' + ('model' if answers else message['role']) + '\\n' }}
    {{- said(message['content'], answers) + '<turn|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|turn>model\\n' }}{%- endif %}
"""
)

_QWEN = """
{%- set first = messages[0]['role'] == 'system' %}
{%- set system = 'You are Qwen, created by Alibaba Cloud. You are a helpful assistant.' %}
{{- '<|im_start|>system\\n' }}
{%- set given = messages[0]['content'] if first else system %}
{{- given if tools else '' + given }}
{%- if tools %}
    {{- '\\n\\n# Tools\\n\\nYou may call one or more functions to assist with the user query.\\n\\n' }}
    {{- 'You are provided with function signatures within <tools></tools> XML tags:\\n<tools>' }}
    {%- for tool in tools %}{{- '\\n' + tool | tojson }}{%- endfor %}
    {{- '\\n</tools>\\n\\nFor each function call, return a json object with function name and arguments ' }}
    {{- 'within <tool_call></tool_call> XML tags:\\n' }}
    {{- '<tool_call>\\n{"name": <function-name>, "arguments": <args-json-object>}\\n</tool_call>' }}
{%- endif %}
{{- '<|im_end|>\\n' }}
{%- for message in messages %}
    {%- set role, content = message['role'], message['content'] %}
    {%- if role == 'assistant' and message['tool_calls'] %}
        {{- '<|im_start|>assistant' }}
        {%- if content %}{{- '\\n' + content }}{%- endif %}
        {%- for call in message['tool_calls'] %}
            {%- set called = call['function'] if call['function'] is defined else call %}
            {{- '\\n<tool_call>\\n{"name": "' }}{{- called['name'] }}
            {{- '", "arguments": ' + called['arguments'] | tojson + '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif role in ['user', 'assistant'] or (role == 'system' and not loop.first) %}
        {{- '<|im_start|>' + role + '\\n' + content + '<|im_end|>\\n' }}
    {%- elif role == 'tool' %}
        {{- '<|im_start|>user' if loop.first or loop.previtem['role'] != 'tool' else '' }}
        {{- '\\n<tool_response>\\n' }}{{- content }}{{- '\\n</tool_response>' }}
        {{- '<|im_end|>\\n' if loop.last or loop.nextitem['role'] != 'tool' else '' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""

TEMPLATES: Mapping[str, str] = {
    **dict.fromkeys(("gemma-3", "gemma3"), _GEMMA),
    **dict.fromkeys(("gemma-4", "gemma4"), _GEMMA_4),
    **dict.fromkeys(("llama-3", "llama3"), _LLAMA_3),
    **dict.fromkeys(("llama-3.1", "llama-31", "llama-3.2", "llama-3.3", "llama-32", "llama-33"), _LLAMA),
    **dict.fromkeys(("qwen-2.5", "qwen-25", "qwen25", "qwen2.5"), _QWEN),
}
"""Unsloth's names of the templates that are here."""


USUAL_NAMES = {"role": "role", "content": "content", "user": "user", "assistant": "assistant"}
# Whose templates take other names for those exactly as Unsloth's do.
MAPPED = frozenset({"llama-3", "llama3"})
_NAMED_OTHERWISE = """
{%%- if 'role' not in messages[0] %%}
    {%%- set given = namespace(turns=[]) %%}
    {%%- for turn in messages %%}
        {%%- set role = {%(user)s: 'user', %(assistant)s: 'assistant'}.get(turn[%(role)s], turn[%(role)s]) %%}
        {%%- set given.turns = given.turns + [{'role': role, 'content': turn[%(content)s]}] %%}
    {%%- endfor %%}
    {%%- set messages = given.turns %%}
{%%- endif %%}
"""


def get_chat_template(
    tokenizer: Any,
    chat_template: str,
    mapping: Mapping[str, str] = USUAL_NAMES,
    *,
    map_eos_token: bool = True,
    system_message: str | None = None,
) -> Any:
    """A copy of the tokenizer with a template that renders as Unsloth's of that name; its own text is another.

    `mapping` are the names that rows have for a message's role and content, and for the two who speak: ShareGPT's
    `{"role": "from", "content": "value", "user": "human", "assistant": "gpt"}`. ValueError for a template that isn't
    here, or not with other names. `map_eos_token` does nothing to these templates; a `system_message` that would change
    one is refused.
    """
    if chat_template not in TEMPLATES:
        raise ValueError(f"chat_template={chat_template!r} is not one of {', '.join(TEMPLATES)}")
    if system_message is not None:
        raise ValueError("get_chat_template(system_message=...) is not ported: put a system message into the rows")
    names = {**USUAL_NAMES, **mapping}
    if names != USUAL_NAMES and chat_template not in MAPPED:
        raise ValueError(
            f"get_chat_template(mapping=...) is ported for {', '.join(sorted(MAPPED))}: rename in the rows"
        )
    made = copy.deepcopy(tokenizer)
    prefix = _NAMED_OTHERWISE % {name: json.dumps(text) for name, text in names.items()}
    made.chat_template = (prefix if names != USUAL_NAMES else "") + TEMPLATES[chat_template]
    return made
