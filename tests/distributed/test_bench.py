"""The benchmark of a cluster runs, and measures each operation in both ways."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_bench_measures_a_cluster(postgres):
    command = [sys.executable, "-m", "bench", "--distributed", "--tiny"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = re.findall(r"Citus, by the (coordinator|node): (.*) / one server", done.stdout)
    by_node = [what for way, what in lines if way == "node"]
    assert len(by_node) > 10
    # with on_begin an append is measured through the coordinator alone
    assert len([what for way, what in lines if way == "coordinator"]) == len(by_node) + 1
    assert len(re.findall(r" (?:yes|NO) ", done.stdout)) == len(lines)
