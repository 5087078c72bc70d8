"""Types of messages are prepared by one thread at a time.

msgspec crashes if two threads prepare a struct at once, which is rare.  So these tests show that
threads which request decoders through `penstock.common.values.decoders` do not, and that no other
code of penstock prepares structs.
"""

import ast
import subprocess
import sys
from pathlib import Path

import penstock
import pytest

RACE = """
import sys, threading, types
from penstock.common.values.decoders import json_decoder

sys.setswitchinterval(1e-6)
fields = "".join(f"    f{number}: dict[str, int] | None = None\\n" for number in range(20))
source = "from __future__ import annotations\\nimport msgspec\\n" + "".join(
    f"class S{number}(msgspec.Struct):\\n{fields}    inner: S{max(0, number - 1)} | None = None\\n"
    for number in range(20)
)
for run in range(30):
    module = sys.modules[f"m{run}"] = types.ModuleType(f"m{run}")
    exec(source, module.__dict__)
    barrier = threading.Barrier(4)

    def decode():
        barrier.wait()
        json_decoder(module.S19).decode(b'{"inner": {"inner": {"f3": {"a": 1}}}}')

    threads = [threading.Thread(target=decode) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("done")
"""


@pytest.mark.process
def test_threads_may_ask_for_the_first_decoder_of_a_type_at_once():
    done = subprocess.run([sys.executable, "-c", RACE], stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"done\n"


def prepares(call):
    """Return whether a call of msgspec prepares its type argument."""
    name = ast.unparse(call.func)
    if not name.startswith("msgspec."):
        return False
    is_typed = name.endswith("Decoder") and (
        call.args or any(k.arg == "type" for k in call.keywords)
    )
    return (
        bool(is_typed) or name == "msgspec.convert" or any(k.arg == "type" for k in call.keywords)
    )


def test_structs_are_prepared_in_one_place_alone():
    package = Path(penstock.__file__).parent
    found = {
        f"{path.relative_to(package)}"
        for path in package.rglob("*.py")
        if "msgspec" in (source := path.read_text())
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and prepares(node)
    }
    assert found == {"common/values/decoders.py"}
