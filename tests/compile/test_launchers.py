"""The parser reads what a C++ compiler would, and says what it cannot bind."""

import keyword

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.compile.c_types import TYPES, Kind, canonical
from warpsmith.compile.launchers import find_launchers
from warpsmith.errors import CompileFailedError


def parsed(text, path="k.cu"):
    return {launcher.name: launcher for launcher in find_launchers({path: text})}


def refusal(text):
    with pytest.raises(CompileFailedError) as caught:
        find_launchers({"k.cu": text})
    return str(caught.value)


def test_original_release_signature():
    found = parsed(
        "#include <cuda_runtime.h>\n"
        'extern "C" void axpby_launcher(\n    float* out,\n    const float* a,\n    float alpha,\n'
        "    int size,\n    cudaStream_t stream\n) { if (size <= 0) return; k<<<1, 2, 0, stream>>>(out, a); }\n"
    )["axpby"]
    assert [p.name for p in found.parameters] == ["out", "a", "alpha", "size"]
    assert [(p.type.dtype, p.pointer) for p in found.parameters] == [
        ("float32", True),
        ("float32", True),
        ("float32", False),
        ("int32", False),
    ]
    assert (found.line, found.symbol) == (2, "axpby_launcher")


def test_block_form_aliases_defaults_and_helpers():
    found = parsed(
        "using scalar = float; typedef unsigned int u32;\n"
        'extern "C" {\nstatic int helper(int x) { return x; }\n'
        "void a_launcher(scalar* x, u32 n, cudaStream_t s) {}\n"
        "void b_launcher(const std::int64_t *__restrict__ i, float y = -1.5f, bool c = true, int n = 3,"
        " void* p = nullptr, cudaStream_t = 0) {}\n}\n"
        'extern "C" int other(int x) { return x; }\n'
        "void not_c_launcher(float* x, cudaStream_t s) {}\n"
    )
    assert set(found) == {"a", "b"}
    assert [p.type for p in found["a"].parameters] == [TYPES["float"], TYPES["unsigned int"]]
    assert [p.default for p in found["b"].parameters] == [None, "-1.5", "True", "3", "None"]
    assert found["b"].parameters[0].type.dtype == "int64"


def test_default_that_is_no_literal_makes_earlier_ones_required():
    found = parsed('extern "C" void f_launcher(int a = 1, int b = SIZE, int c = 2, cudaStream_t s = 0) {}')
    assert [p.default for p in found["f"].parameters] == [None, None, "2"]


@pytest.mark.parametrize(
    ("signature", "said"),
    [
        ("void f_launcher(float* x)", "cudaStream_t stream` as its last parameter"),
        ("void f_launcher()", "cudaStream_t stream` as its last parameter"),
        ("void f_launcher(cudaStream_t s, float* x)", "cudaStream_t stream` as its last parameter"),
        ("int f_launcher(float* x, cudaStream_t s)", "must return void"),
        ("float* f_launcher(float* x, cudaStream_t s)", "must return void"),
        ("void f_launcher(float** x, cudaStream_t s)", "`float** x` cannot be passed"),
        ("void f_launcher(float& x, cudaStream_t s)", "`float& x` cannot be passed"),
        ("void f_launcher(Thing t, cudaStream_t s)", "`Thing t` has a type"),
        ("void f_launcher(float4 t, cudaStream_t s)", "`float4 t` has a type"),
        ("void _f_launcher(float* x, cudaStream_t s)", "starts with a letter"),
        ("static void f_launcher(float* x, cudaStream_t s)", "static"),
    ],
)
def test_what_cannot_be_bound_is_named_with_its_line(signature, said):
    message = refusal(f'\nextern "C" {signature} {{}}')
    assert said in message
    assert message.startswith("k.cu:2: ")
    assert "\n" not in message


def test_two_signatures_of_one_name():
    text = 'extern "C" void f_launcher({}* x, cudaStream_t s) {{}}'
    with pytest.raises(
        CompileFailedError, match=r"b\.cu:1: f_launcher is defined with another signature at a\.cu:1"
    ):
        find_launchers({"a.cu": text.format("float"), "b.cu": text.format("half")})


def test_comments_strings_and_broken_code_do_not_hide_or_invent_launchers():
    found = parsed(
        '// extern "C" void no_launcher(float* x, cudaStream_t s) {}\n'
        'const char* t = "extern \\"C\\" void neither_launcher(cudaStream_t s) {}";\n'
        "int broken = ;\nvoid g() { x ? ; }\n"
        'extern "C" void yes_launcher(float* x /* out */, cudaStream_t s) {}\n'
    )
    assert set(found) == {"yes"}


@pytest.mark.parametrize(
    ("spelled", "same"),
    [
        ("long unsigned int", "unsigned long"),
        ("unsigned", "unsigned int"),
        ("int long long", "long long"),
        ("char signed", "signed char"),
        ("std::size_t", "size_t"),
        ("short int", "short"),
        ("signed", "int"),
    ],
)
def test_canonical_spelling(spelled, same):
    assert canonical(spelled) == same


_names = st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True).filter(
    lambda name: not keyword.iskeyword(name) and name not in _CPP_WORDS and name not in TYPES
)
_CPP_WORDS = frozenset(
    "if do for int new try asm auto bool case char else enum goto long this true void using while float short "
    "union const break false catch class delete double export extern inline friend public return signed sizeof "
    "static struct switch throw typeid typedef default mutable private virtual template typename unsigned or and "
    "not xor bitor compl bitand and_eq or_eq xor_eq not_eq operator register explicit volatile continue concept "
    "requires co_await co_yield consteval final override module import".split()
)
_gaps = st.sampled_from([" ", "\n    ", " /* , */ ", "\t"])


@st.composite
def _parameters(draw):
    spelled = draw(st.sampled_from(sorted(TYPES)))
    pointer = TYPES[spelled].kind is Kind.POINTEE or draw(st.booleans())
    gap = draw(_gaps)
    const = draw(st.sampled_from(["", "const "]))
    marks = (
        draw(st.sampled_from(["* ", " *", "*__restrict__ ", "* __restrict__ const ", " * const "]))
        if pointer
        else ""
    )
    return const, spelled, marks, gap, pointer


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(_parameters(), _names), max_size=6, unique_by=lambda p: p[1]), st.booleans(), _gaps)
def test_any_signature_is_read_back(parameters, block, gap):
    written = [
        f"{const}{spelled}{marks or ' '}{g}{name}" for (const, spelled, marks, g, _), name in parameters
    ]
    function = f"void{gap}k_launcher({f',{gap}'.join([*written, 'cudaStream_t stream'])}) {{}}"
    text = f'extern "C" {{ {function} }}' if block else f'extern "C" {function}'
    found = parsed(text)["k"].parameters
    assert [(p.name, p.type, p.pointer) for p in found] == [
        (name, TYPES[spelled], pointer) for (_, spelled, _, _, pointer), name in parameters
    ]
