"""A causal language model of transformers as a chat: greedy, or drawn with the candidate's own seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Self

from tellapart.builders.negatives.chat import ChatOptions, ChatReply, Message
from tellapart.errors import ModelError
from tellapart.models.huggingface.files import config_facts, import_transformers, load_tokenizer, load_weights, quiet
from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import forward, import_torch, runtime, weights_fingerprint

__all__ = ["LocalChat"]


class LocalChat:
    """A causal model and its tokenizer; without a chat template, a conversation is read as plain turns.

    Conversations are answered one by one: neither neighbours nor the order of work change a reply.

    Args:
        options: temperature, limit of tokens, device.
        model: in evaluation mode, on its device.
        tokenizer: the model's.
    """

    def __init__(self, options: ChatOptions, model: Any, tokenizer: Any) -> None:
        self._options, self._model, self._tokenizer = options, model, tokenizer
        self._context: int | None = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        own = model.generation_config
        ends = own.eos_token_id if own.eos_token_id is not None else tokenizer.eos_token_id
        self._ends: list[int] = ends if isinstance(ends, list) else [ends] if ends is not None else []
        pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else next(iter(self._ends), None)
        sampling = {"temperature": options.temperature, "top_k": 0} if options.temperature else {}
        # In place of the checkpoint's own, from which the library would take every value that a call leaves out.
        model.generation_config = import_transformers().GenerationConfig(
            do_sample=options.temperature > 0, num_beams=1, max_new_tokens=options.max_tokens, pad_token_id=pad,
            eos_token_id=self._ends or None, bos_token_id=own.bos_token_id, **sampling,
        )  # fmt: skip

    @classmethod
    def load(cls, options: ChatOptions) -> Self:
        """Load weights and tokenizer.

        Raises:
            ModelError: a file is missing, or the weights are not those of a causal model.
            MissingDependencyError: torch or transformers is not installed.
        """
        where = runtime(ModelOptions(device=options.device, dtype=options.dtype))
        tokenizer = load_tokenizer(options.source)
        return cls(options, load_weights("AutoModelForCausalLM", options.source, where), tokenizer)

    @cached_property
    def models(self) -> Mapping[str, str]:
        """The model's class, with a hash of its weights, configuration, vocabulary and template."""
        kind, template = type(self._model).__name__, self._tokenizer.chat_template
        vocabulary = repr(sorted(self._tokenizer.get_vocab().items()))
        facts = (config_facts(self._model.config), vocabulary, repr(template), self._options.dtype)
        return {kind: weights_fingerprint(self._model, *facts)[:16]}

    def __call__(self, messages: Sequence[Message], seed: int, /) -> ChatReply:
        """Return the reply.

        Raises:
            ModelError: the conversation and the reply exceed the model's context.
        """
        torch = import_torch()
        ids = self._encode(messages)
        if self._context is not None and len(ids) + self._options.max_tokens > self._context:
            raise ModelError(
                f"{self._options.source}: conversation and reply take {len(ids)} + {self._options.max_tokens} tokens "
                f"and its context holds {self._context}; give fewer max_tokens or examples, or another model"
            )
        row = torch.tensor([ids], device=self._model.device)
        devices = [self._model.device] if self._model.device.type == "cuda" else []
        with quiet(), forward(self._options.source, self._model), torch.random.fork_rng(devices=devices):
            torch.manual_seed(seed % 2**63)
            out = self._model.generate(input_ids=row, attention_mask=torch.ones_like(row))[0].tolist()
        new = out[len(ids) :]
        text = str(self._tokenizer.decode(new, skip_special_tokens=True))
        return ChatReply(text, cut=len(new) == self._options.max_tokens and new[-1] not in self._ends)

    def _encode(self, messages: Sequence[Message]) -> list[int]:
        if self._tokenizer.chat_template is None:
            turns = "".join(f"{message.role}: {message.content}\n\n" for message in messages)
            return list(self._tokenizer(f"{turns}assistant:").input_ids)
        turns = self._tokenizer.apply_chat_template(
            [message._asdict() for message in messages], tokenize=False, add_generation_prompt=True
        )
        # The template writes the special tokens itself.
        return list(self._tokenizer(turns, add_special_tokens=False).input_ids)
