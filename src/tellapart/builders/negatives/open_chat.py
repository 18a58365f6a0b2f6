"""The language model that a recipe names: local weights or a server."""

from __future__ import annotations

from tellapart.builders.negatives.chat import Chat, ChatOptions
from tellapart.errors import ModelError

__all__ = ["open_chat"]


def open_chat(options: ChatOptions, *, insecure: bool = False) -> Chat:
    """Open a chat model.

    Args:
        options: of the recipe.
        insecure: ask a server of another machine over plain http, too.

    Raises:
        ModelError: a server without a model's name, or a folder with one; a server that may not be asked, or not with
            the key of the environment; the weights are not those of a causal model.
        MissingDependencyError: a local model needs torch and transformers.
    """
    if options.served:
        from tellapart.builders.negatives.chat_server import ServedChat

        if not options.name:
            raise ModelError(f"{options.source} is a server; say which of its models with the key 'name'")
        return ServedChat(options, insecure=insecure)
    from tellapart.builders.negatives.chat_local import LocalChat

    if options.name:
        raise ModelError(
            f"{options.source} is a local model; the key 'name' is a server's, whose source begins with http:// or "
            "https://"
        )
    return LocalChat.load(options)
