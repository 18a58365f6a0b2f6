"""False captions that are hard to tell from true ones: by rule, by a language model, and balanced by text-only scorers."""
