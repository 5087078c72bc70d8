"""PEP 517 backend: compiles the Cython extensions, then hands over to maturin.

One wheel holds the Rust extension ``penstock._core`` and the Cython extensions
``penstock._native.*.*``.  maturin owns metadata, tags and the Rust build; this file only adds the
compiled Cython modules in place before maturin collects the files, and checks afterwards that
they are in the wheel.  Run as a script it compiles the Cython modules in place (``make cython``).
"""

import os
import platform
import sys
import sysconfig
import zipfile
from pathlib import Path

import maturin
from maturin import (  # noqa: F401  hooks that need no change
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_wheel,
)

if sysconfig.get_config_var("Py_GIL_DISABLED"):
    sys.exit(
        f"penstock cannot be built for the free-threaded {sys.executable}: its threads rely on "
        "CPython's global interpreter lock; use an ordinary build of the same version"
    )

ROOT = Path(__file__).resolve().parent.parent
NATIVE = ROOT / "native"
PACKAGE = ROOT / "python" / "penstock" / "_native"
GENERATED = ROOT / "build" / "cython"
#: The machine that the modules are for; those for another machine are compiled by a $CC that can.
MACHINE = os.environ.get("PENSTOCK_BUILD_MACHINE", platform.machine())
EXT_SUFFIX = sysconfig.get_config_var("EXT_SUFFIX").replace(platform.machine(), MACHINE)

# Modules with one source for both runtimes: plain Python that the native build compiles, most with
# an augmenting .pxd of the same name under native/.
SHARED_SOURCES = {
    f"penstock._native.{package}.{name}": f"python/penstock/{room}/{name}.py"
    for package, room, names in (
        ("keys", "serialization/pure", "keys"),
        ("state", "taskexecutor/state", "folding_states heap_states map_iterators type_check"),
        ("state", "taskexecutor/rocksdb", "element_states"),
        (
            "operators",
            "taskexecutor/compiled",
            "field_sum function_operators match_heap match_nodes operator_loop pattern_automaton "
            "pattern_matching pattern_operator process_operators source_operators time_operators "
            "timers window_operators",
        ),
    )
    for name in names.split()
}

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
    "auto_pickle": False,
    "embedsignature": False,
}
if os.environ.get("PENSTOCK_CYTHON_DEBUG"):
    DIRECTIVES.update(boundscheck=True, initializedcheck=True)

prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def extension_sources():
    """Return module name → source path, relative to the root."""
    found = {
        ".".join(path.relative_to(NATIVE).with_suffix("").parts): str(path.relative_to(ROOT))
        for path in sorted(NATIVE.rglob("*.pyx"))
    }
    return found | SHARED_SOURCES


def remove_foreign_extensions():
    """Remove leftovers of other interpreters and former modules: they would go into the wheel."""
    wanted = {PACKAGE.joinpath(*name.split(".")[2:]) for name in extension_sources()}
    for path in PACKAGE.rglob("*.so"):
        if path.with_name(path.name.removesuffix(EXT_SUFFIX)) not in wanted:
            path.unlink()


def remove_outdated_c_files():
    """Remove outdated C files: Cython ignores that shared sources depend on .pxd cimports."""
    newest = max(path.stat().st_mtime for path in NATIVE.rglob("*.pxd"))
    for source in SHARED_SOURCES.values():
        generated = GENERATED / Path(source).with_suffix(".c")
        if generated.exists() and generated.stat().st_mtime < newest:
            generated.unlink()


def keep_c_files_of_this_cython():
    """Date current C files after the installation of Cython; remove those of another Cython.

    Each build of a wheel installs Cython anew. Its own .pxd files would then be newer than all C
    files, though these do not depend on the interpreter.
    """
    import Cython

    stamp = GENERATED / "translated_by"
    translator = f"Cython {Cython.__version__} {DIRECTIVES}"
    same = stamp.exists() and stamp.read_text() == translator
    own = Path(Cython.__file__).parent.glob("Includes/**/*.pxd")
    installed = max(path.stat().st_mtime for path in own)
    sources = [*NATIVE.rglob("*.*"), *(ROOT / source for source in SHARED_SOURCES.values())]
    changed = max(path.stat().st_mtime for path in sources)
    for generated in GENERATED.rglob("*.c"):
        dated = generated.stat().st_mtime
        if not same:
            generated.unlink()
        elif changed < dated < installed:
            generated.touch()
    GENERATED.mkdir(parents=True, exist_ok=True)
    stamp.write_text(translator)


def compile_cython():
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    class Builder(build_ext):
        def get_ext_filename(self, fullname):
            return str(Path(*fullname.split("."))) + EXT_SUFFIX

    os.chdir(ROOT)
    remove_outdated_c_files()
    keep_c_files_of_this_cython()
    headers = [str(path.relative_to(ROOT)) for path in sorted(NATIVE.rglob("*.h"))]
    profiling = bool(os.environ.get("PENSTOCK_PROFILING"))
    # At -O0 the C compiler takes a fifth of the time; for builds whose speed does not matter.
    optimization = os.environ.get("PENSTOCK_CYTHON_OPTIMIZATION", "-O3")
    extensions = [
        Extension(
            name,
            [source],
            include_dirs=["native/penstock/_native"],
            depends=headers,
            extra_compile_args=[optimization, "-g" if profiling else "-g0", "-fvisibility=hidden"],
        )
        for name, source in extension_sources().items()
    ]
    distribution = Distribution(
        {
            "name": "penstock",
            "package_dir": {"": "python"},
            "ext_modules": cythonize(
                extensions,
                include_path=["native"],
                build_dir="build/cython",
                compiler_directives=DIRECTIVES,
                nthreads=os.cpu_count() or 1,
                annotate=bool(os.environ.get("PENSTOCK_CYTHON_ANNOTATE")),
            ),
        }
    )
    # sysconfig's LDSHARED may carry the interpreter's own library directory as an RPATH.
    os.environ["LDSHARED"] = f"{os.environ.get('CC', 'cc')} -shared"
    command = Builder(distribution)
    command.build_temp = "build/temp"
    command.inplace = True
    command.parallel = os.cpu_count()
    command.ensure_finalized()
    command.run()


def check_wheel(path):
    names = set(zipfile.ZipFile(path).namelist())
    wanted = {name.replace(".", "/") + EXT_SUFFIX for name in extension_sources()}
    if missing := wanted - names:
        sys.exit(f"{path.name} lacks {sorted(missing)}: check [tool.maturin] include")
    if "-abi3-" in path.name:
        sys.exit(f"{path.name} claims abi3 but its Cython extensions are built for {EXT_SUFFIX}")


def get_requires_for_build_wheel(config_settings=None):
    return [
        *maturin.get_requires_for_build_wheel(config_settings),
        "Cython>=3.1,<4",
        "setuptools>=77",
    ]


get_requires_for_build_editable = get_requires_for_build_wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    remove_foreign_extensions()
    compile_cython()
    name = maturin.build_wheel(wheel_directory, config_settings, metadata_directory)
    check_wheel(Path(wheel_directory, name))
    return name


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    remove_foreign_extensions()
    compile_cython()
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)


if __name__ == "__main__":
    compile_cython()
