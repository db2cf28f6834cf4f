"""The kernel of the search as machine code: compiled by numba once, kept as a file, loaded without numba.

Importing numba costs some tenths of a second and a hundred megabytes, loading an object file by llvmlite (of which
numba is made) a tenth of that. So numba translates ``kernel.stretch`` with an entry that takes addresses only, and what
comes out is kept where numba keeps its own: in NUMBA_CACHE_DIR, next to the sources, or in the user's cache. A file is
good for these sources and this processor; any other one is compiled again.

Guarantees: what is loaded calls nothing outside itself but what every C library has: it can neither raise nor allocate.
Any other outcome is ``None``, and ``fast`` takes numba's own way. Out of scope: the search.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from checkers.linearizability import kernel
from checkers.linearizability.kernel import COLUMNS, OF_A_VALUE, OF_AN_OPERATION, REGISTERS, SLOTS, SPREAD
from checkers.linearizability.kernel import stretch as kernel_stretch

ENTRY = "dethrone_stretch"
ARRAYS = (
    *("event", "ops", "kinds", "opened", "movers", "available", "reach", "most_spent", "by_value", "tried", "places"),
    *("ctl", "pool", "spent", "wide", "wide_spent"),
)
"""Of ``kernel.stretch``, in its order; all are of 64 bits, only what was spent is of 32."""
HALVES = ("spent", "wide_spent")
NUMBERS = 6
"""Integers that follow them."""
FROM_THE_C_LIBRARY = frozenset({"memset", "memcpy", "memmove"})

Stretch = Callable[..., int]


@cache
def name() -> str:
    """Of the file: other sources, another Python or another kind of machine have another one."""
    sources = b"".join(Path(str(module)).read_bytes() for module in (kernel.__file__, __file__))
    mark = hashlib.sha256(sources).hexdigest()[:16]
    return f"kernel.{sys.implementation.cache_tag}-{platform.machine()}-{mark}.o"


def places() -> Iterator[Path]:
    """Where it may be, the first one first."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        yield Path(chosen)
        return
    yield Path(__file__).parent / "__pycache__"
    yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dethrone"


def kept() -> Path | None:
    """The file, if there is one."""
    return next((path for place in places() if (path := place / name()).is_file()), None)


def load() -> Callable[..., Any] | None:
    """The entry: a C function that takes addresses; see ``bound``. None: it cannot be had this way."""
    try:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        path, processor = kept(), _processor(llvm)
        stored = path.read_bytes() if path is not None else b""
        if not stored.startswith(processor):
            stored = processor + _compiled(llvm)
            _keep(stored)
        return _function(llvm, stored[len(processor) :])
    except Exception:  # noqa: BLE001 - parts of numba that may be otherwise in its next version: there is another way
        return None


def bound(entry: Callable[..., Any], arrays: tuple[Any, ...], rows: tuple[Any, ...]) -> Stretch:
    """``kernel.stretch`` with these arrays: what remains are its integers. They must outlive it, where they are."""
    every = (*arrays, *rows)
    event, ops, kinds, _, _, _, reach, _, by_value, tried, _, _, pool, *_ = every
    sizes = (ctypes.c_int64 * 7)(len(event), len(ops), len(kinds), len(reach), len(by_value), len(tried), len(pool))
    answer, trouble = ctypes.c_int64(), ctypes.c_void_p()
    before = [ctypes.byref(answer), ctypes.byref(trouble), sizes, *(_address(array) for array in every)]

    def stretch(*numbers: int) -> int:
        if entry(*before, *numbers):
            raise RuntimeError("the compiled kernel ended otherwise than it can")
        return answer.value

    return stretch


def _address(array: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.__array_interface__["data"][0])


def _processor(llvm: Any) -> bytes:
    """What the machine code is for; begins the file."""
    features = llvm.get_host_cpu_features().flatten()
    return f"{llvm.get_default_triple()} {llvm.get_host_cpu_name()} {features}\n".encode()


def _function(llvm: Any, code: bytes) -> Callable[..., Any]:
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    addresses = [ctypes.c_void_p] * (3 + len(ARRAYS))
    prototype = ctypes.CFUNCTYPE(ctypes.c_int32, *addresses, *([ctypes.c_int64] * NUMBERS))
    function = prototype(engine.get_function_address(ENTRY))
    function.engine = engine  # type: ignore[attr-defined]  # the code lives as long as it does
    return function


def _keep(stored: bytes) -> None:
    """Write it where that is possible: whole, or not at all."""
    for place in places():
        try:
            place.mkdir(parents=True, exist_ok=True)
            handle, draft = tempfile.mkstemp(dir=place)
            with os.fdopen(handle, "wb") as file:
                file.write(stored)
            Path(draft).replace(place / name())
        except OSError:
            continue
        return


def _compiled(llvm: Any) -> bytes:
    """An object file that has the entry, by numba."""
    from numba import cfunc, njit
    from numba import types as kinds
    from numba.np import arrayobj

    space = dict(vars(kernel))
    options: dict[str, Any] = {"_nrt": False, "error_model": "numpy"}
    for each in kernel.COMPILED:
        function = types.FunctionType(space[each].__code__, space, each)
        space[each] = njit(inline="always" if each in kernel.INLINED else "never", **options)(function)
    words, halves, number = kinds.CPointer(kinds.int64), kinds.CPointer(kinds.int32), kinds.int64  # type: ignore[no-untyped-call]
    pointers = [halves if array in HALVES else words for array in ARRAYS]
    arrays = arrayobj.get_cfarray_intrinsic("C", None)  # type: ignore[no-untyped-call]
    names = {**globals(), "kernel_stretch": space["stretch"], "view": arrays}
    entry = types.FunctionType(_entry.__code__, names, ENTRY)
    made = cfunc(number(words, *pointers, *([number] * NUMBERS)), **options)(entry)
    # around the entry numba puts one that Python can call: that one is not wanted, and calls numba
    return _alone(llvm, made.inspect_llvm(), made.native_name.removeprefix("cfunc."))


def _alone(llvm: Any, assembly: str, entry: str) -> bytes:
    """Only the entry and what it calls; ValueError: it calls something that is not there without numba."""
    module = llvm.parse_assembly(assembly)
    for function in module.functions:
        if function.name != entry and not function.is_declaration:
            function.linkage = "internal"
    module.get_function(entry).name = ENTRY
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3, jit=True
    )
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3)))
    wanted = {one.name for one in module.functions if one.is_declaration and not one.name.startswith("llvm.")}
    wanted |= {one.name for one in module.global_variables if one.is_declaration}
    if wanted - FROM_THE_C_LIBRARY:
        raise ValueError(f"the compiled kernel calls {', '.join(sorted(wanted))}")
    return bytes(machine.emit_object(module))


def view(address: Any, shape: tuple[int, ...]) -> Any:
    """The array at an address: only compiled code has that."""
    raise NotImplementedError(f"{address} {shape}")


def _entry(  # noqa: PLR0917 - numba has no other way to pass addresses
    sizes: Any,
    event: Any,
    ops: Any,
    kinds: Any,
    opened: Any,
    movers: Any,
    available: Any,
    reach: Any,
    most_spent: Any,
    by_value: Any,
    tried: Any,
    places: Any,
    ctl: Any,
    pool: Any,
    spent: Any,
    wide: Any,
    wide_spent: Any,
    mode: int,
    width: int,
    expand_max: int,
    until: int,
    steps_max: int,
    rows_max: int,
) -> Any:
    """Compiled, never called as Python: what is at these addresses, as arrays."""
    many, room = sizes[2], sizes[6]
    return kernel_stretch(
        view(event, (sizes[0],)),
        view(ops, (sizes[1], OF_AN_OPERATION)),
        view(kinds, (many, OF_AN_OPERATION)),
        view(opened, (SLOTS,)),
        view(movers, (SLOTS,)),
        view(available, (many,)),
        view(reach, (sizes[3],)),
        view(most_spent, (many,)),
        view(by_value, (sizes[4], OF_A_VALUE)),
        view(tried, (sizes[5], 2)),
        view(places, (SPREAD + 1,)),
        view(ctl, (REGISTERS,)),
        view(pool, (room, COLUMNS)),
        view(spent, (room, many)),
        view(wide, (room, COLUMNS)),
        view(wide_spent, (room, many)),
        mode,
        width,
        expand_max,
        until,
        steps_max,
        rows_max,
    )
