"""A framework that trains elsewhere and only answers here."""

from llamafactory.chat import ChatModel

model = ChatModel({"model_name_or_path": "Qwen/Qwen3-0.6B", "template": "qwen"})
print(model.chat([{"role": "user", "content": "Who are you?"}])[0].response_text)
