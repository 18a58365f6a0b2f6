"""Serve a model of llama.cpp until the process ends: `serve_gguf.py LANGUAGE_MODEL PICTURE_ENCODER PORT`."""

import signal
import sys

import xllamacpp


def main(language: str, pictures: str, port: str) -> None:
    """Serve both files as the model `tiny`, at that port of this machine; 0 is any, which the first line says."""
    settings = xllamacpp.CommonParams()
    settings.model.path, settings.mmproj.path = language, pictures
    settings.port, settings.n_ctx, settings.n_parallel = int(port), 4096, 2
    settings.cpuparams.n_threads, settings.warmup, settings.model_alias = 1, False, {"tiny"}
    # A prompt that begins as the one before is read anew, so that no number depends on what was asked first.
    settings.cache_prompt = False
    server = xllamacpp.Server(settings)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
