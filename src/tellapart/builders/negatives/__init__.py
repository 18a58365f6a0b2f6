"""False captions that resemble true ones: by rule or language model, balanced by text-only scorers."""
