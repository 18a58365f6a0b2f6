"""Models on servers that speak OpenAI's API: chat completions, embeddings and scores."""
