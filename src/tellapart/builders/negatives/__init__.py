"""False captions that are hard to tell from true ones: by rule or language model, balanced by text-only scorers."""
