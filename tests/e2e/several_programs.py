"""Runs programs one after the other, each as a main program: ``several_programs.py PATH…``.

They share the interpreter, and so its Spark, which takes longer to start than most of them to run.
"""

import runpy
import sys

if __name__ == "__main__":
    for path in sys.argv[1:]:
        print("program", path, file=sys.stderr, flush=True)
        runpy.run_path(path, run_name="__main__")
