"""The language model that a recipe names: local weights or a server."""

from __future__ import annotations

from tellapart.builders.negatives.chat import Chat, ChatOptions
from tellapart.errors import ModelError

__all__ = ["open_chat"]


def open_chat(options: ChatOptions) -> Chat:
    """Open a chat model.

    Raises:
        ModelError: a server without a model's name, or a folder with one; the key's variable is not set; the weights
            are not those of a causal model.
        MissingDependencyError: a local model needs torch and transformers.
    """
    if options.served:
        from tellapart.builders.negatives.chat_server import ServedChat

        if not options.name:
            raise ModelError(f"{options.source} is a server; say which of its models with the key 'name'")
        return ServedChat(options)
    from tellapart.builders.negatives.chat_local import LocalChat

    if options.name or options.key_variable:
        raise ModelError(
            f"{options.source} is a local model; the keys 'name' and 'key_variable' are a server's, whose source "
            "begins with http:// or https://"
        )
    return LocalChat.load(options)
