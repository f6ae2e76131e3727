"""The C interface, as installed: built by gcc and g++ through pkg-config, run as real processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess

import pytest
from installed import BUILT, C99, CPP, ROOT, STRICT, Program


def test_a_list_goes_from_process_to_process_to_process(build, env):
    program = build(C99, ROOT / "examples/c/list.c")
    doubling = build(CPP, ROOT / "examples/c/list.cpp")
    first = Program([program, "create"], env)
    second = Program([program, "extend", first.answer()], env)
    third = Program([doubling, token := second.answer()], env)
    assert third.answer() == "106"
    last = subprocess.run(
        [program, "print", third.answer()], env=env, check=True, capture_output=True, text=True
    )
    assert last.stdout.split() == ["2", "4", "6", "200"]
    # Nobody sees another's changes.
    assert second.tell("") == "1 2 3 100"
    assert first.tell("") == "1 2 3"
    third.process.stdin.write("\n")
    assert [p.end() for p in (first, second, third)] == [0, 0, 0]
    gone = subprocess.run([program, "print", token], env=env, capture_output=True, text=True)
    assert gone.returncode == 1 and "no living process" in gone.stderr
    assert not [n for n in os.listdir(env["SWINGDB_HOME"]) if n.startswith("swing-token-")]


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("length", [1, 3 * 4096, 100 << 20])
def test_producers_and_consumers_of_the_original(build, env, tmp_path, length, static):
    program = build(C99, ROOT / "examples/c/interactive.c", "swing-original", static=static)
    length = max(length, 64)
    a, b, c = (Program([program], env) for _ in range(3))
    far = length - 32
    token = a.tell(f"create {length}")
    assert 1 <= int(token) <= 4095
    assert b.tell(f"hook {token}") == "-1", "a new area is not hookable"
    assert a.tell(f"write {far} one") == "ok"
    assert a.tell("enable") == "ok"
    assert a.tell(f"write {far} two") == "ok", "stores go on after enabling"
    of_b = b.tell(f"hook {token}")
    assert int(of_b) > 0 and of_b != token
    assert b.tell(f"read {far}") == "two", "the state of the moment of the hook"
    assert a.tell(f"write {far} three") == "ok" and b.tell(f"write {far} mine") == "ok"
    assert (a.tell(f"read {far}"), b.tell(f"read {far}")) == ("three", "mine")
    assert c.tell(f"hook {of_b}") == "-1", "b has not enabled its area"
    assert b.tell("enable") == "ok"
    assert int(c.tell(f"hook {of_b}")) > 0 and c.tell(f"read {far}") == "mine"
    if length > 4096:
        (tmp_path / "text").write_bytes(b"from a file\0")
        assert a.tell(f"load 40 12 {tmp_path / 'text'}") == "ok"
        assert a.tell("read 40") == "from a file"
        assert b.tell(f"save {far} 5 {tmp_path / 'saved'}") == "ok"
        assert (tmp_path / "saved").read_bytes() == b"mine\0"
    assert a.tell("disable") == "ok"
    assert c.tell(f"hook {token}") == "-1"
    assert a.tell("enable") == "ok" and a.tell(f"write {far} four") == "ok"
    assert int(c.tell(f"hook {token}")) > 0 and c.tell(f"read {far}") == "four"
    # Ends, however they come, take nothing from those who hold the memory.
    a.process.send_signal(signal.SIGKILL)
    a.process.wait()
    assert c.tell(f"read {far}") == "four"
    assert b.tell(f"hook {token}") == "-1", "the dead process's area is gone"
    assert b.tell("release") == "ok" and b.tell("release") == "-1"
    assert c.tell(f"read {far}") == "four" and c.tell(f"write {far} five") == "ok"
    assert c.tell(f"read {far}") == "five"
    assert b.end() == 0 and c.end() == 0


def test_the_names_of_the_paper(build, env, tmp_path):
    source = tmp_path / "paper.c"
    source.write_text("""
        #include <swing_compat.h>
        #include <assert.h>
        #include <string.h>
        int main(void) {
            void *a = createarea((size_t)1 << 30), *b;
            AddressInformation block;
            assert(a != SWING_FAILED && swingtoken(a) >= 1 && hook(swingtoken(a)) == SWING_FAILED);
            block = swingmalloc(swingtoken(a), 1000);
            assert(block.addr != NULL && block.size >= 1000);
            strcpy((char *)block.addr, "before");
            assert(changehookstatus(swingtoken(a), 1) == 0);
            b = hook(swingtoken(a));
            assert(b != SWING_FAILED && swingtoken(b) != swingtoken(a));
            strcpy((char *)block.addr, "after");
            assert(strcmp((char *)swingaddress(b) + ((char *)block.addr - (char *)swingaddress(a)),
                          "before") == 0);
            block = swingrealloc(block.addr, 100000);
            assert(block.size >= 100000 && strcmp((char *)block.addr, "after") == 0);
            swingfree(block.addr);
            assert(changehookstatus(swingtoken(a), 0) == 0);
            assert(hook(swingtoken(a)) == SWING_FAILED && hook(4096) == SWING_FAILED);
            assert(release(swingtoken(a)) == 0 && release(swingtoken(a)) == -1);
            assert(release(swingtoken(b)) == 0 && createarea(0) == SWING_FAILED);
            return 0;
        }""")
    renamed = source.with_suffix(".cpp")
    renamed.write_text(source.read_text())
    for program in (build(C99, source), build(CPP, renamed)):
        subprocess.run([program], env=env, check=True)


def test_the_allocator_as_c_programs_use_it(build, env):
    for compiler in (C99, CPP):
        source = ROOT / "tests/capi/heap.c"
        program = build([*compiler, *(["-xc++"] if compiler is CPP else [])], source)
        subprocess.run([program], env=env, check=True)


def test_the_object_heap_as_c_programs_use_it(build, env, tmp_path):
    for compiler in (C99, CPP):
        source = ROOT / "tests/capi/objects.c"
        language = ["-xc++"] if compiler is CPP else ["-D_POSIX_C_SOURCE=200809L"]
        program = build([*compiler, *language, "-pthread"], source)
        subprocess.run([program, tmp_path], env=env, check=True)


def test_heaps_in_areas_as_c_programs_use_them(build, env, tmp_path):
    for compiler in (C99, CPP):
        source = ROOT / "tests/capi/shared_heap.c"
        language = ["-xc++"] if compiler is CPP else ["-D_POSIX_C_SOURCE=200809L"]
        program = build([*compiler, *language], source)
        subprocess.run([program, tmp_path], env=env, check=True)


def test_the_papers_calls_with_plain_pointers(build, env, tmp_path):
    for compiler in (C99, CPP):
        source = ROOT / "tests/capi/fgmm.c"
        language = ["-xc++"] if compiler is CPP else ["-D_POSIX_C_SOURCE=200809L"]
        program = build([*compiler, *language, "-pthread"], source)
        subprocess.run([program], env={**env, "FGMM_DIRECTORY": str(tmp_path)}, check=True)


def test_the_example_of_the_object_heap(build, env, tmp_path):
    program = build(C99, ROOT / "examples/c/objects.c")
    printed = subprocess.run(
        [program, tmp_path], env=env, check=True, capture_output=True, text=True
    ).stdout
    assert printed.startswith("100000 right of 100000;")


def test_the_example_of_a_shared_object_heap(build, env, tmp_path):
    program = build([*C99, "-D_POSIX_C_SOURCE=200809L"], ROOT / "examples/c/shared_objects.c")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([program, "own", tmp_path], env=env, text=True, **pipes) as owner:
        assert owner.stdout.readline() == "shared 100000 objects\n"
        read = subprocess.run(
            [program, "read"], env=env, check=True, capture_output=True, text=True
        ).stdout
        owner.communicate("")
    assert read.startswith("100000 objects, ") and owner.returncode == 0


def test_the_address_sanitizer_bears_trapped_stores(build, env):
    source = ROOT / "examples/c/interactive.c"
    compiler = ["gcc", "-std=gnu99", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    program = Program([build(compiler, source, "swing-original")], env)
    token = program.tell("create 100000")
    assert program.tell("enable") == "ok" and program.tell("write 50000 x") == "ok"
    assert int(program.tell(f"hook {token}")) > 0 and program.tell("write 50000 y") == "ok"
    assert program.tell("read 50000") == "y"
    assert program.end() == 0


def installed_files(where):
    return sorted(str(p.relative_to(where)) for p in where.rglob("*") if not p.is_dir())


def test_a_package_is_made_by_destdir_and_taken_away_again(prefix, tmp_path):
    command = [ROOT / "tools/install_c.sh", BUILT, "/opt/swing"]
    env = {**os.environ, "DESTDIR": str(tmp_path)}
    (tmp_path / "opt/swing/lib").mkdir(parents=True)
    (tmp_path / "opt/swing/lib/other.so").touch()
    subprocess.run(command, env=env, check=True)
    made = tmp_path / "opt/swing"
    assert installed_files(made) == sorted([*installed_files(prefix), "lib/other.so"])
    for name in ("swing", "swing-original"):
        text = (made / f"lib/pkgconfig/{name}.pc").read_text()
        assert text.startswith("prefix=/opt/swing\n") and str(tmp_path) not in text
    subprocess.run([*command, "--remove"], env=env, check=True)
    assert installed_files(tmp_path) == ["opt/swing/lib/other.so"]


def test_both_sets_of_names_at_once_are_refused(prefix, tmp_path):
    source = tmp_path / "both.c"
    original = prefix / "include/swing/original/swing.h"
    source.write_text(f'#include <swing_compat.h>\n#include "{original}"\n')
    command = ["gcc", f"-I{prefix}/include/swing", "-fsyntax-only", source]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode != 0 and "same names" in refused.stderr


C_TYPES = {
    "c_int": "int", "c_uint": "unsigned int", "usize": "size_t", "u64": "uint64_t",
    "*mut c_void": "void *", "*const c_void": "const void *", "*const c_char": "const char *",
    "*mut usize": "size_t *", "*mut swing_area": "swing_area *",
    "*mut swing_block": "swing_block *", "*mut swing_stats": "swing_stats *", "": "void",
    "*const swing_options": "const swing_options *", "*const swing_class": "const swing_class *",
    "*const swing_heap_options": "const swing_heap_options *",
    "*mut swing_heap_stats": "swing_heap_stats *",
    "swing_heap_progress": "swing_heap_progress",
    "*mut c_void": "void *", "*mut *mut c_void": "void **",
    "*mut swing_heap": "swing_heap *", "*mut *mut swing_heap": "swing_heap **",
    "*const swing_heap_config": "const swing_heap_config *", "*const u64": "const uint64_t *",
    "*mut swing_heap_counters": "swing_heap_counters *", "*mut u64": "uint64_t *",
    "*mut swing_heap_snapshot": "swing_heap_snapshot *",
    "*mut *mut swing_heap_snapshot": "swing_heap_snapshot **",
}  # fmt: skip
STRUCTURES = (
    "swing_area", "swing_block", "swing_stats", "swing_options", "swing_class",
    "swing_heap_options", "swing_heap_stats", "swing_heap_config", "swing_heap_counters",
)  # fmt: skip


def rust_functions(text):
    pattern = r'extern "C" fn (swing_\w+)\(([^)]*)\)(?: -> ([^{]+))? \{'
    for name, arguments, result in re.findall(pattern, text):
        types = [a.split(":")[1].strip() for a in arguments.split(",") if ":" in a]
        yield name, (C_TYPES[result.strip()], *[C_TYPES[t] for t in types])


def c_functions(text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    for result, name, arguments in re.findall(r"^(\S.*?)(swing_\w+)\(([^)]*)\);", text, re.M):
        types = [re.sub(r"\w+$", "", a.strip()).strip() for a in arguments.split(",")]
        yield name, (result.strip(), *[t for t in types if t])


def test_the_header_says_what_the_library_has(prefix):
    header = "".join((ROOT / f"include/{name}.h").read_text() for name in ("swing", "fgmm"))
    # A `swing_object` is a number of 64 bits.
    header = header.replace("swing_object ", "uint64_t ")
    names = ("calls", "heap_calls", "object_calls", "pointer_calls", "shared_heap_calls")
    sources = [ROOT / f"crates/swing-capi/src/{name}.rs" for name in names]
    source = "".join(path.read_text() for path in sources)
    declared, defined = dict(c_functions(header)), dict(rust_functions(source))
    assert declared == defined and len(declared) > 15
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", prefix / "lib/libswing.so"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    exported = {line.split()[-1] for line in symbols.splitlines()}
    assert {name for name in exported if name.startswith("swing_")} == set(declared)
    for name in STRUCTURES:
        of_c = re.search(rf"typedef struct {name} {{(.*?)}} {name};", header, re.S).group(1)
        of_c = re.sub(r"/\*.*?\*/", "", of_c, flags=re.S)
        fields_c = re.findall(r"([\w ]+[ *])(\w+);", of_c)
        fields_c = [(kind.strip(), field) for kind, field in fields_c]
        of_rust = re.search(rf"pub struct {name} {{(.*?)}}", source, re.S).group(1)
        fields_rust = re.findall(r"pub (\w+): ([^,]+),", of_rust)
        assert [(n, t.strip()) for t, n in fields_c] == [(n, C_TYPES[t]) for n, t in fields_rust]
    codes = (ROOT / "crates/swing-capi/src/error.rs").read_text()
    of_rust = {int(n) for n in re.findall(r"^    \w+ = (-\d+),", codes, re.M)}
    assert {int(n) for n in re.findall(r"SWING_E_\w+ \((-\d+)\)", header)} == of_rust
    assert "libswing.so.0" in os.readlink(prefix / "lib/libswing.so")


def test_the_layout_is_the_compilers(build, env, tmp_path):
    source = tmp_path / "layout.c"
    source.write_text("""
        #include <swing.h>
        #include <string.h>
        _Static_assert(sizeof(swing_area) == 32, "area");
        _Static_assert(offsetof(swing_area, published_ns) == 24, "area");
        _Static_assert(sizeof(swing_block) == 16 && sizeof(swing_stats) == 40, "others");
        int main(void) {
            int bad = strcmp(swing_strerror(0), "success") || swing_create(0, NULL) != -1;
            return bad || swing_release(4096) != SWING_E_ARGUMENT || !*swing_last_error();
        }""")
    subprocess.run([build(["gcc", "-std=c11", *STRICT], source)], env=env, check=True)


def test_uninstalling_leaves_nothing(tmp_path):
    install = [ROOT / "tools/install_c.sh", BUILT, tmp_path]
    subprocess.run(install, check=True)
    assert (tmp_path / "lib/libswing.so").exists()
    subprocess.run([*install, "--remove"], check=True)
    assert [p for p in tmp_path.rglob("*") if not p.is_dir()] == []
