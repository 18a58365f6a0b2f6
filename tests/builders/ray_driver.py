"""Builds a recipe on a Ray cluster of two nodes on this machine, one of which dies in mid-run; run by a test."""

import json
import sys
from pathlib import Path

from tellapart.builders.executor import RayExecutor
from tellapart.builders.pipeline import build
from tellapart.errors import RunError

#: So that the death of a node is noticed within a second.
NOTICE = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 300, "health_check_failure_threshold": 3}


def main(recipe: Path, out: Path) -> None:
    import ray
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": NOTICE}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        second = cluster.add_node(num_cpus=1)
        cluster.connect()
        told = []

        def progress(stage: str, done: int, _total: int) -> None:
            if stage == "candidates":
                told.append(done)
                if done == 3:
                    cluster.remove_node(second, allow_graceful=False)

        refused = []
        for wrong in (RayExecutor("auto", version="0"), RayExecutor("auto", gpus=1.0)):
            try:
                next(wrong.perform(abs, [1]))
            except RunError as error:
                refused.append(str(error))
        built = build(recipe, out, executor=RayExecutor("auto"), progress=progress)
        alive = sum(node["Alive"] for node in ray.nodes())
    finally:
        ray.shutdown()
        cluster.shutdown()
    sys.stdout.write(json.dumps({"items": built.funnel.items, "alive": alive, "told": told, "refused": refused}) + "\n")


if __name__ == "__main__":  # pytest looks for examples in it, too
    main(Path(sys.argv[1]), Path(sys.argv[2]))
