"""Objects that pickle by a global name of the program's own file are pickled by value.

Method: a program's main module pickles functions as operators hold them; another process, with
another main module, loads and calls them.
"""

import ast
import functools
import pickle
import subprocess
import sys

import numpy
import pytest
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import InvalidProgramError
from penstock.serialization.code_pickle import dumps

PROGRAM = '''
import contextlib, enum, functools, os, pickle, sys, typing
from functools import cache, cached_property, lru_cache, singledispatch, singledispatchmethod
from penstock.datastream.shipping import shipped
from penstock.serialization.code_pickle import dumps

@lru_cache
def square(n):
    return n * n

@lru_cache(maxsize=7, typed=True)
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

class Caching:
    @lru_cache
    def method(self, n): return n + 1
    @staticmethod
    @cache
    def static(n): return n + 2
    @classmethod
    @cache
    def of_class(cls, n): return n + 3
    @cached_property
    def cached(self): return 5
    @singledispatchmethod
    def dispatched(self, n): return "any"
    @dispatched.register
    def _(self, n: int): return "int"

@singledispatch
def kind_of(value): return "any"
@kind_of.register
def _(value: int): return "int"
@kind_of.register(list)
def _(value): return "list of " + kind_of(value[0])

UserId = typing.NewType("UserId", int)

class Color(enum.Enum):
    RED = 1

class Missing:
    def __reduce__(self): return "MISSING"
MISSING = Missing()

class Slotted:
    __slots__ = ("value",)
    def __reduce__(self): return "SLOTTED"
SLOTTED = Slotted()
SLOTTED.value = 4

class OnlyOne(type):
    made = {}
    def __call__(cls):
        if cls not in cls.made:
            cls.made[cls] = super().__call__()
        return cls.made[cls]
class Single(metaclass=OnlyOne):
    value = 9

class Decorated:
    """As some libraries' decorators."""
    def __init__(self, function):
        functools.update_wrapper(self, function)
        self.function = function
    def __call__(self, n): return self.function(n)
    def __reduce__(self): return self.__qualname__
@Decorated
def decorated(n):
    return 1 if n == 0 else n * decorated(n - 1)

def closure():
    @cache
    def inner(n): return n + 100
    return lambda: inner(1)

functions = [
    lambda: square(3),
    lambda: fibonacci(30),
    lambda: (square.cache_info().currsize, fibonacci.cache_parameters(), square.__name__),
    functools.partial(square, 4),
    lambda: functools.partial(square)(5),
    lambda: [cached(2) for cached in (square, fibonacci)],
    lambda: (Caching().method(1), Caching.static(1), Caching.of_class(1), Caching().cached),
    lambda: (Caching().dispatched(1), Caching().dispatched("")),
    lambda: (kind_of(""), kind_of(1), kind_of([1])),
    lambda: UserId(3),
    lambda red=Color.RED: red is Color.RED,
    lambda missing=MISSING: missing is MISSING,
    lambda: SLOTTED.value,
    lambda: Single() is Single() and Single().value,
    lambda: decorated(5),
    closure(),
]
square(1)
parts = [dumps(shipped(function, "map")) for function in functions]
os.write(1, pickle.dumps((parts, dumps(MISSING))))
'''

EXPECTED = [
    9,
    832040,
    (0, {"maxsize": 7, "typed": True}, "square"),
    16,
    25,
    [4, 1],
    (2, 3, 4, 5),
    ("int", "any"),
    ("any", "int", "list of int"),
    3,
    True,
    True,
    4,
    9,
    120,
    101,
]

WORKER = """
import pickle, sys
parts, missing = pickle.load(sys.stdin.buffer)
functions = [pickle.loads(part) for part in parts]
print([function() for function in functions])
# A value and the functions of several operators mean the same object.
defaults = [f.__defaults__[0] for f in functions if getattr(f, "__defaults__", None)]
print(pickle.loads(missing) in defaults)
"""


@pytest.mark.process
def test_objects_of_the_main_module_travel_by_value(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    pickled = subprocess.run([sys.executable, program], stdout=subprocess.PIPE, check=True)
    command = [sys.executable, "-c", WORKER]
    worker = subprocess.run(command, input=pickled.stdout, stdout=subprocess.PIPE, check=True)
    results, is_same = worker.stdout.decode().splitlines()
    assert ast.literal_eval(results) == EXPECTED
    assert is_same == "True"


@functools.lru_cache
def of_a_module(n):
    return n


@pytest.mark.parametrize("value", [of_a_module, len, numpy.sin, ..., NotImplemented])
def test_importable_objects_travel_by_name(value):
    assert pickle.loads(dumps(value)) is value


def test_an_object_whose_name_means_nothing_to_workers_is_refused_when_it_is_added():
    """Its parts are not known: it is written in C."""
    env = StreamExecutionEnvironment.get_execution_environment()
    added = numpy.frompyfunc(lambda n: n + 1, 1, 1)
    with pytest.raises(InvalidProgramError, match=r"map.*is pickled by its name.*open\(\)"):
        env.from_collection([1]).map(lambda n: added(n))
