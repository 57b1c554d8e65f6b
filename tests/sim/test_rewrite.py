"""Rewriting CUDA C++: what changes, what stays, what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.errors import SubmissionUnsupportedError
from warpsmith.sim.rewrite import rewrite_source


def rewritten(text: str) -> str:
    head, _, rest = rewrite_source(text, "k.cu").partition('#line 1 "k.cu"\n')
    assert head == '#include "warpsmith_sim.h"\n'
    return rest


@pytest.mark.parametrize(
    ("launch", "kernel", "config"),
    [
        ("k<<<1, 2>>>(x);", "k", "1, 2"),
        ("a::k<<<dim3(1, 2), 256, 0, s>>>(x);", "a::k", "dim3(1, 2), 256, 0, s"),
        ("::a::k<<<1, 2>>>(x);", "::a::k", "1, 2"),
        ("k<float, (a > b)><<<g, b, s, st>>>(x);", "k<float, (a > b)>", "g, b, s, st"),
        (
            "k<T, (a>b ? 1 : 2)><<<(n + 31) >> 5, 1 << 5>>>(x);",
            "k<T, (a>b ? 1 : 2)>",
            "(n + 31) >> 5, 1 << 5",
        ),
        ("(*k)<<<1, 2>>>(x);", "(*k)", "1, 2"),
    ],
)
@pytest.mark.parametrize("frame", ["void f() {{ {} }}", "#define RUN(x) do {{ {} }} while (0)", "{{ {} ]] ("])
def test_launch(launch: str, kernel: str, config: str, frame: str) -> None:
    expected = f"[&](auto... wsim_args) {{ {kernel}(wsim_args...); }}, ::wsim::Config({config}))(x);"
    assert expected in rewritten(frame.format(launch))


def test_launch_inside_a_dispatch_macro() -> None:
    text = 'void f() { DISPATCH(type, "k", ([&] { k<scalar_t, 4><<<1, 2>>>(x); })); }'
    assert "{ k<scalar_t, 4>(wsim_args...); }" in rewritten(text)


def test_comments_and_strings_stay() -> None:
    text = '// k<<<1, 2>>>(x); NULL\nconst char* s = "k<<<1, 2>>>(NULL)"; /* __shared__ */\n'
    text += 'auto r = R"(a<<<b>>>c)";\n'
    assert rewritten(text) == text


def test_static_shared_memory_becomes_a_reference() -> None:
    text = "__global__ void k() { __shared__ __align__(16) float t[32][33], u; t[0][0] = u; }"
    out = rewritten(text)
    assert "typedef __attribute__((aligned(16))) float wsim_t_t [ 32 ] [ 33 ] , wsim_t_u;" in out.replace(
        "( (", "(("
    )
    assert "auto& t = ::wsim::shared_object<wsim_t_t, wsim_g_t>();" in out
    assert "auto& u = ::wsim::shared_object<wsim_t_u, wsim_g_u>();" in out


def test_dynamic_shared_memory_becomes_a_pointer() -> None:
    text = "__global__ void k() { extern __shared__ __align__(16) unsigned char raw[]; raw[0] = 1; }"
    assert "unsigned char* const raw = ::wsim::dynamic_shared<unsigned char>();" in rewritten(text)


def test_device_functions_get_internal_linkage() -> None:
    out = rewritten(
        "__device__ float f(float x) { return x; }\n"
        "__host__ __device__ float g(float x) { return x; }\n"
        "template <typename T> __global__ void k(T* x) {}\n"
        "struct S { __device__ float m() { return 0; } };\n"
        "static __device__ int h() { return 1; }\n"
        "__global__ void plain(float* x) {}\n"
    ).splitlines()
    assert out[0].startswith("static __device__ float f")
    assert out[1].startswith("__host__ __device__ float g")
    assert out[2].startswith("template <typename T> static __global__ void k")
    assert "static" not in out[3]
    assert out[4].startswith("static __device__ int h")
    assert out[5].startswith("__global__ void plain")


@pytest.mark.parametrize(
    ("text", "line", "construct"),
    [
        ('__global__ void k() {\n  asm volatile("mov.u32 %0, 1;" : "=r"(x));\n}', 2, "inline PTX"),
        ("#include <mma.h>\n", 1, "wmma"),
        ("\nusing namespace nvcuda;\n", 2, "wmma"),
        ("#include <cub/cub.cuh>\n", 1, "CUB"),
        ("void f() {\n\n  thrust::sort(a, b);\n}", 3, "Thrust"),
        ("#include <cuda/pipeline>\n", 1, "an asynchronous pipeline"),
        ("#include <cuda/barrier>\n", 1, "cuda::barrier"),
        ("#include <cudaTypedefs.h>\n", 1, "TMA"),
        ("\nvoid f(const CUtensorMap* m) {}", 2, "TMA"),
        ("void f() { cudaLaunchCooperativeKernel(k, 1, 1, 0); }", 1, "grid synchronisation"),
        ("__global__ void __cluster_dims__(2, 1, 1) k() {}", 1, "thread block clusters"),
        ("void f() {\n  auto c = cg::this_cluster();\n}", 2, "thread block clusters"),
        ("__global__ void k(cudaTextureObject_t t) {}", 1, "textures"),
        ("__global__ void k(cudaSurfaceObject_t t) {}", 1, "surfaces"),
        ("#include <curand_kernel.h>\n", 1, "cuRAND"),
        ("void f() { cudaStreamBeginCapture(s, m); }", 1, "CUDA graphs"),
        ("#include <cutlass/gemm.h>\n", 1, "CUTLASS"),
        (
            "__global__ void c(float*);\n__global__ void k(float* x) { c<<<1, 1>>>(x); }",
            2,
            "dynamic parallelism",
        ),
        ("void f() {\n cublasSsyrk(h);\n}", 2, "cuBLAS's cublasSsyrk"),
        ("void f() { cublasLtMatrixTransform(h); }", 1, "cuBLAS's cublasLtMatrixTransform"),
        ("void f() { cudnnRNNForward(h); }", 1, "cuDNN's cudnnRNNForward"),
    ],
)
def test_unsupported_names_the_line_and_the_construct(text: str, line: int, construct: str) -> None:
    with pytest.raises(SubmissionUnsupportedError) as caught:
        rewrite_source(text, "k.cu")
    assert str(caught.value).startswith(f"k.cu:{line}: {construct}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "#include <cublas_v2.h>\nvoid f() { cublasSgemm(h, CUBLAS_OP_N); cublasGemmStridedBatchedEx(h); }\n",
        "#include <cudnn.h>\nvoid f() { cudnnCreateTensorDescriptor(&d); cudnnConvolutionForward(h); }\n",
        "#include <cublasLt.h>\nvoid f() { cublasLtMatmul(h, CUBLASLT_EPILOGUE_GELU_BIAS); }\n",
        "#include <cuda_pipeline.h>\nvoid f() { __pipeline_commit(); auto g = cg::this_grid(); }\n",
    ],
)
def test_what_the_simulator_has_is_left_alone(text: str) -> None:
    assert rewritten(text) == text


def test_branches_for_a_gpu_architecture_are_not_compiled_here() -> None:
    text = '#if __CUDA_ARCH__ >= 800\nasm("cp.async;");\n#else\nint x;\n#endif\n// asm\nint asm_count;\n'
    assert rewritten(text) == text
    assert rewritten('void f() { asm volatile("" ::: "memory"); }').count("asm") == 1


@given(st.text(alphabet="k<>(){}[];:,'\"\\\n/*#_x0 =", max_size=60))
def test_any_text_is_rewritten_or_refused_and_keeps_its_lines(text: str) -> None:
    try:
        out = rewritten(text)
    except SubmissionUnsupportedError:
        return
    assert out.count("\n") == text.count("\n")


def test_namespace_scope_dynamic_shared_memory_keeps_later_lines() -> None:
    out = rewritten("extern __shared__ float s[];\n__global__ void k() { s[0] = 1; }\n")
    assert "#define s (::wsim::dynamic_shared<float>())" in out
    assert '#line 1 "k.cu"\n\n__global__' in out
