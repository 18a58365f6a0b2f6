"""Make the logs beside this file anew, with the tools themselves; their versions stand in the logs.

    uv run --with inspect_ai==0.3.285 --with lm-eval==0.4.13 python tests/report/logs/make_logs.py

No model is asked: answers follow from an item's number. Inspect counts an answer's tokens, which its encoding would
come over the network for; bytes stand for them here.
"""

import json
import shutil
import tempfile
from contextlib import chdir
from pathlib import Path

QUESTIONS = [(f"q{k}", f"Is there a cat in picture {k}?", "yes" if k % 2 else "no") for k in range(8)]


def answers(step: int, count: int) -> list[str]:
    """Return answers, some of them wrong."""
    return ["yes" if (k * step) % 7 < 4 else "no" for k in range(count)]


class _Bytes:
    def encode(self, text: str, **_: object) -> list[int]:
        return list(text.encode())


def run_inspect(step: int, epochs: int, path: Path) -> None:
    """Ask all questions `epochs` times, judged by two scorers."""
    import tiktoken

    tiktoken.get_encoding = tiktoken.encoding_for_model = lambda _name: _Bytes()
    from inspect_ai import Task
    from inspect_ai import eval as evaluate
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput, get_model
    from inspect_ai.scorer import includes, match
    from inspect_ai.solver import generate

    rows = [
        Sample(id=name, input=text, target=answer, metadata={"kind": "first" if k < 4 else "second"})
        for k, (name, text, answer) in enumerate(QUESTIONS)
    ]
    replies = [ModelOutput.from_content("mockllm/model", text) for text in answers(step, epochs * len(rows))]
    model = get_model("mockllm/model", custom_outputs=replies)
    task = Task(dataset=rows, solver=generate(), scorer=[match(), includes()], name="cats")
    with tempfile.TemporaryDirectory() as folder:
        (log,) = evaluate(task, model=model, epochs=epochs, log_dir=folder, display="none", max_connections=1)
        shutil.copy(log.location, path)


def run_harness(step: int, folder: Path) -> None:
    """Ask all questions by lm-eval, from a file of this folder."""
    from lm_eval import simple_evaluate
    from lm_eval.api.model import LM
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    class Alternate(LM):
        def loglikelihood(self, requests: list) -> list:
            return [(0.0, False) for _ in requests]

        def loglikelihood_rolling(self, requests: list) -> list:
            return [0.0 for _ in requests]

        def generate_until(self, requests: list) -> list:
            return answers(step, len(requests))

    rows, config = folder / "cats.jsonl", folder / "cats.yaml"
    rows.write_text("".join(json.dumps({"question": text, "answer": answer}) + "\n" for _, text, answer in QUESTIONS))
    config.write_text(
        "task: cats\ndataset_path: json\ndataset_kwargs:\n  data_files: cats.jsonl\ntest_split: train\n"
        'output_type: generate_until\ndoc_to_text: "{{question}}"\ndoc_to_target: "{{answer}}"\n'
        "metric_list:\n  - metric: exact_match\n    aggregation: mean\n    higher_is_better: true\n"
    )
    tracker = EvaluationTracker(output_path=str(folder))
    tasks = TaskManager(include_path=str(folder), include_defaults=False)
    with chdir(folder):
        results = simple_evaluate(
            Alternate(), tasks=["cats"], task_manager=tasks, log_samples=True, evaluation_tracker=tracker
        )
    samples = results.pop("samples")
    results["config"]["model"] = f"alternate-{step}"
    results["configs"]["cats"]["metadata"] = {}  # the folder's path
    tracker.general_config_tracker.model_name = f"alternate-{step}"
    tracker.save_results_aggregated(results=results, samples=samples)
    tracker.save_results_samples(task_name="cats", samples=samples["cats"])
    rows.unlink()
    config.unlink()
    for path in folder.glob("*/*"):
        shutil.move(path, folder / path.name)


if __name__ == "__main__":
    here = Path(__file__).parent
    run_inspect(3, 2, here / "a.eval")
    run_inspect(5, 1, here / "b.eval")
    for number in (3, 5):
        place = here / f"alternate-{number}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        run_harness(number, place)
