"""bench/cuda without a GPU, with programs and a PyTorch that only answer: rows do not depend on each other, what takes too
long is given up, and the log makes the table.
"""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import cuda_main  # noqa: E402

PROGRAM = """#!{python}
import sys
if sys.argv[1] == "broken":
    sys.exit("device-times: no such model")
print("{{}}", flush=True)
for line in sys.stdin:
    print('{{"ms": 1.0, "ms_with_copies": 2.0}}', flush=True)
"""

PEER = """
import json, sys, time
print(json.dumps({"torch": "0", "device": "none", "cudnn": 0}), flush=True)
for line in sys.stdin:
    request, answer = json.loads(line), {}
    if "prepare" in request:
        if request["compile"] and request["prepare"] == "slow":
            time.sleep(100)
        if request["compile"] and request["prepare"] == "ends":
            sys.exit("it ended")
        answer = {"kinds": ["compiled"] if request["compile"] else ["eager"], "mode": "default", "graph": True, "seconds": 0}
        answer = {"error": "it is unknown"} if request["prepare"] == "unknown" else answer
    if "time" in request:
        answer = {"ms": {"eager": 4.0, "compiled": 2.0}[request["kind"]]}
    print(json.dumps(answer), flush=True)
"""


def row(name, case):
    return cuda_main.Row("taesd", name, cuda_main.device_times(name, "decode", 8, 1, "f32"), case)


class Bench(unittest.TestCase):
    def run_rows(self, folder, rows, seconds):
        program = Path(folder, "device-times")
        program.write_text(PROGRAM.format(python=sys.executable))
        program.chmod(0o755)
        arguments = ["cuda", folder, "--log", os.path.join(folder, "log"), "--compile-limit", str(seconds), "--jobs", "4"]

        def start_peer(case):
            return cuda_main.Process([sys.executable, "-c", PEER], f"PyTorch, {case}")

        out, errors = io.StringIO(), io.StringIO()
        with unittest.mock.patch.multiple(cuda_main, ROWS=rows, start_peer=start_peer), unittest.mock.patch.object(sys, "argv", arguments):
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
                self.assertEqual(cuda_main.main(), 0)
                cuda_main.print_table(arguments[3])
        return out.getvalue(), errors.getvalue()

    def test_rows_do_not_depend_on_each_other(self):
        rows = [row("good", "fast"), row("broken", "fast too"), row("lonely", "unknown"), row("short", "ends")]
        with tempfile.TemporaryDirectory() as folder:
            out, errors = self.run_rows(folder, rows, 60)
            entries = [json.loads(line) for line in Path(folder, "log").read_text().splitlines()]
        self.assertEqual([e["name"] for e in entries], ["good", "broken", "lonely", "short"])
        whole = "| **1.00** | 2.00 | 4.00 | - | 2.00 (default) | 0.50 |"
        for line in ("| good " + whole, "| broken | - | - | 4.00 | - | **2.00** (default) | - |",
                     "| lonely | **1.00** | 2.00 | - | - | - | - |", "| short | **1.00** | 2.00 | 4.00 | - | - | - |"):
            self.assertEqual(out.count(line), 2, line)  # when it is measured, and in the table
        for sentence in ("device-times: no such model", "it is unknown", "it ended"):
            self.assertIn(sentence, errors)

    def test_what_does_not_compile_in_time_is_given_up(self):
        with tempfile.TemporaryDirectory() as folder:
            out, errors = self.run_rows(folder, [row("late", "slow")], 1)
        self.assertEqual(out.count("| late | **1.00** | 2.00 | 4.00 | - | - | - |"), 2)
        self.assertIn("PyTorch, slow compiled: not compiled in 1 s", errors)

    def test_the_table_keeps_what_failed_later(self):
        entries = [{"name": "TAESD decode 512x512, bf16", "zenith": 1.0, "compiled": 2.0, "recorded": True, "about": "a"},
                   {"name": "TAESD decode 512x512, bf16", "zenith": 1.5, "about": "b"}]
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder, "log")
            log.write_text("".join(json.dumps(e) + "\n" for e in entries))
            with contextlib.redirect_stdout(io.StringIO()) as out:
                cuda_main.print_table(str(log))
        self.assertIn("| TAESD decode 512x512, bf16 | **1.50** | - | - | - | 2.00 | 0.75 |", out.getvalue())


if __name__ == "__main__":
    unittest.main(verbosity=2)
