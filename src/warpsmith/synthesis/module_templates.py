"""Templates of `torch.nn` modules whose constructors need arguments, or whose defaults would be dull.

Modules that need none and take one tensor are found by trying them (`crawl_torch`).
"""

from warpsmith.synthesis.records import Family, InputTemplate, Parameter
from warpsmith.synthesis.templates import Template, choose, module, size, tensor

_OUT = size("out_channels", "d1", "2 * d1", "d1 // 2", "32", "64", "96", "128")
_OUT_FEATURES = size("out_features", "last", "2 * last", "last // 2", "4 * last", "256", "512", "1024")
_HIDDEN = size("hidden_size", "last", "128", "256")
_EVEN = "d1 % 2 == 0"
_SPATIAL = {1: "?", 2: "? ?", 3: "? ? ?"}
_OF_KERNEL = choose("padding", "kernel_size // 2")


def _convs() -> list[Template]:
    found = []
    for n in (1, 2, 3):
        name, rank, dims = f"Conv{n}d", str(n + 2), f"d0 out_channels {_SPATIAL[n]}"
        kernel = choose("kernel_size", *((3, 5, 7) if n < 3 else (3,)))
        plain = "{d1}, {out_channels}, kernel_size={kernel_size}"
        found += [
            module(name, Family.CONV, rank, plain + ", padding={padding}", _OUT, kernel, _OF_KERNEL, dims=dims),
            module(name, Family.CONV, rank, "{d1}, {out_channels}, kernel_size=1", _OUT,
                   dims=dims, variant="pointwise"),
            module(name, Family.CONV, rank, plain + ", stride=2, padding={padding}", _OUT, kernel, _OF_KERNEL,
                   dims=dims, variant="strided"),
            module(name, Family.CONV, rank, plain + ", padding={dilation}, dilation={dilation}", _OUT,
                   choose("kernel_size", 3), choose("dilation", 2, 3), dims=dims, variant="dilated"),
            module(name, Family.CONV, rank, plain + ", padding={padding}, groups={groups}", _OUT, kernel,
                   _OF_KERNEL, choose("groups", 2, 4), requires="d1 % groups == 0; out_channels % groups == 0",
                   dims=dims, variant="grouped"),
            module(name, Family.CONV, rank, "{d1}, {d1}, kernel_size={kernel_size}, padding={padding}, groups={d1}",
                   kernel, _OF_KERNEL, dims=f"d0 d1 {_SPATIAL[n]}", variant="depthwise"),
            module(name, Family.CONV, rank, plain + ", bias=False", _OUT, kernel, dims=dims, variant="valid"),
            module(f"ConvTranspose{n}d", Family.CONV, rank, plain + ", stride=2, padding=1, output_padding=1", _OUT,
                   choose("kernel_size", 3), dims=dims, variant="doubling"),
            module(f"ConvTranspose{n}d", Family.CONV, rank, plain + ", stride={stride}", _OUT,
                   choose("kernel_size", 2, 3, 4), choose("stride", 1, 2), dims=dims),
        ]  # fmt: skip
    return found


def _norms() -> list[Template]:
    norm = Family.NORM
    groups = choose("groups", 2, 4, 8, 16)
    found = [
        module("LayerNorm", norm, "2345", "{last}"),
        module("LayerNorm", norm, "2345", "{last}, bias=False", variant="no_bias"),
        module("RMSNorm", norm, "2345", "{last}"),
        module("GroupNorm", norm, "345", "{groups}, {d1}", groups, requires="d1 % groups == 0; d1 > groups"),
        module("LocalResponseNorm", norm, "345", "{window}", choose("window", 3, 5)),
        module("CrossMapLRN2d", norm, "4", "{window}", choose("window", 3, 5)),
        module("BatchNorm1d", norm, "23", "{d1}"),
        module("BatchNorm2d", norm, "4", "{d1}"),
        module("BatchNorm3d", norm, "5", "{d1}"),
        module("SyncBatchNorm", norm, "4", "{d1}"),
    ]
    for n in (1, 2, 3):
        found += [
            module(f"InstanceNorm{n}d", norm, str(n + 2), "{d1}"),
            module(f"InstanceNorm{n}d", norm, str(n + 2), "{d1}, affine=True", variant="affine"),
        ]
    return found


def _pools() -> list[Template]:
    pool = Family.POOL
    found = []
    for n in (1, 2, 3):
        rank = str(n + 2)
        kernel, out = choose("kernel_size", 2, 3), choose("output_size", 1, 2, 4, 7)
        fits = "; ".join(f"d{i} % output_size == 0; d{i} > output_size" for i in range(2, n + 2))
        for kind in ("Max", "Avg"):
            found += [
                module(f"{kind}Pool{n}d", pool, rank, "{kernel_size}", kernel),
                module(f"{kind}Pool{n}d", pool, rank, "{kernel_size}, stride=1, padding=1", choose("kernel_size", 3),
                       variant="dense"),
                module(f"{kind}Pool{n}d", pool, rank, "{kernel_size}, stride=2, padding=1", choose("kernel_size", 3),
                       variant="overlapping"),
                module(f"Adaptive{kind}Pool{n}d", pool, rank, "{output_size}", out, requires=fits),
            ]  # fmt: skip
        found.append(module(f"LPPool{n}d", pool, rank, "2.0, {kernel_size}", kernel))
    return found


def _pads() -> list[Template]:
    found = []
    padding = choose("padding", 1, 2, 3)
    for n in (1, 2, 3):
        for kind in ("Reflection", "Replication", "Circular", "Zero"):
            found.append(module(f"{kind}Pad{n}d", Family.RESHAPE, str(n + 2), "{padding}", padding))
        found.append(
            module(f"ConstantPad{n}d", Family.RESHAPE, str(n + 2), "{padding}, {value}", padding,
                   choose("value", 0.5, 1.0))
        )  # fmt: skip
    return found


def _resampling() -> list[Template]:
    scale = choose("scale_factor", 2)
    modes = {3: ("nearest", "linear"), 4: ("nearest", "bilinear", "bicubic"), 5: ("nearest", "trilinear")}
    found = [
        module("Upsample", Family.RESAMPLE, str(rank), f'scale_factor={{scale_factor}}, mode="{mode}"', scale,
               variant=f"{mode}{rank - 2}d")
        for rank, named in modes.items() for mode in named
    ]  # fmt: skip
    return [
        *found,
        module("UpsamplingNearest2d", Family.RESAMPLE, "4", "scale_factor={scale_factor}", scale),
        module("UpsamplingBilinear2d", Family.RESAMPLE, "4", "scale_factor={scale_factor}", scale),
        module("PixelShuffle", Family.RESHAPE, "4", "2", requires="d1 % 4 == 0", dims="d0 ? ? ?"),
        module("PixelUnshuffle", Family.RESHAPE, "4", "2", requires="d2 % 2 == 0; d3 % 2 == 0"),
        module("ChannelShuffle", Family.RESHAPE, "4", "{groups}", choose("groups", 2, 4),
               requires="d1 % groups == 0"),
        module("Unfold", Family.RESHAPE, "4", "{kernel_size}, padding=1", choose("kernel_size", 3)),
        module("Unfold", Family.RESHAPE, "4", "{kernel_size}, stride={kernel_size}", choose("kernel_size", 2),
               variant="patches"),
        module("Flatten", Family.RESHAPE, "345", "2", variant="from_2", requires="d2 > 1"),
        module("Flatten", Family.RESHAPE, "345"),
        module("Unflatten", Family.RESHAPE, "234", "1, ({groups}, {d1} // {groups})", choose("groups", 2, 4, 8),
               requires="d1 % groups == 0; d1 > groups"),
    ]  # fmt: skip


def _linears() -> list[Template]:
    hidden, heads = _HIDDEN, choose("num_heads", 4, 8)
    whole = "last % num_heads == 0; last >= 32; last <= 2048; d1 >= 16; d1 <= 2048; d0 <= 4096"
    recurrent = "last >= 16; last <= 1024; d1 >= 8; d1 <= 512"
    other = tensor("other", "d0 last")
    return [
        module("Linear", Family.LINEAR, "234", "{last}, {out_features}", _OUT_FEATURES),
        module("Linear", Family.LINEAR, "234", "{last}, {out_features}, bias=False", _OUT_FEATURES,
                 variant="no_bias"),
        module("Bilinear", Family.LINEAR, "2", "{last}, {last}, {out_features}", size("out_features", 16, 32, 64),
               call="{self}({x}, {other})", inputs=(other,), requires="last <= 128", dims="d0 out_features"),
        module("MultiheadAttention", Family.ATTENTION, "3", "{last}, {num_heads}, batch_first=True", heads,
               call="{self}({x}, {x}, {x}, need_weights=False)[0]", requires=whole),
        module("MultiheadAttention", Family.ATTENTION, "3", "{last}, {num_heads}, batch_first=True", heads,
               call="{self}({x}, {memory}, {memory}, need_weights=False)[0]", requires=whole, variant="cross",
               inputs=(tensor("memory", "d0 d1 last"),)),
        module("TransformerEncoderLayer", Family.ATTENTION, "3",
               "{last}, {num_heads}, dim_feedforward={dim_feedforward}, batch_first=True", heads,
               size("dim_feedforward", "2 * last", "4 * last"), requires=whole),
        module("TransformerDecoderLayer", Family.ATTENTION, "3",
               "{last}, {num_heads}, dim_feedforward={dim_feedforward}, batch_first=True", heads,
               size("dim_feedforward", "2 * last", "4 * last"), call="{self}({x}, {memory})",
               inputs=(tensor("memory", "d0 d1 last"),), requires=whole),
        module("GRU", Family.RECURRENT, "3", "{last}, {hidden_size}, batch_first=True", hidden,
               call="{self}({x})[0]", requires=recurrent, dims="d0 d1 hidden_size"),
        module("LSTM", Family.RECURRENT, "3", "{last}, {hidden_size}, batch_first=True", hidden,
               call="{self}({x})[0]", requires=recurrent, dims="d0 d1 hidden_size"),
        module("RNN", Family.RECURRENT, "3", "{last}, {hidden_size}, batch_first=True", hidden,
               call="{self}({x})[0]", requires=recurrent, dims="d0 d1 hidden_size"),
        module("GRUCell", Family.RECURRENT, "2", "{last}, {hidden_size}", hidden, call="{self}({x}, {hidden})",
               inputs=(tensor("hidden", "d0 hidden_size"),), dims="d0 hidden_size"),
        module("LSTMCell", Family.RECURRENT, "2", "{last}, {hidden_size}", hidden,
               call="{self}({x}, ({hidden}, {cell}))[0]", dims="d0 hidden_size",
               inputs=(tensor("hidden", "d0 hidden_size"), tensor("cell", "d0 hidden_size"))),
        module("RNNCell", Family.RECURRENT, "2", "{last}, {hidden_size}", hidden, call="{self}({x}, {hidden})",
               inputs=(tensor("hidden", "d0 hidden_size"),), dims="d0 hidden_size"),
        *_embeddings(),
    ]  # fmt: skip


def _embeddings() -> list[Template]:
    indices = InputTemplate(
        name="indices",
        shape=("d0", "d1"),
        dtype="int64",
        draw="torch.randint(0, {num_embeddings}, ({shape}))",
    )
    table = (
        size("num_embeddings", 10000, 32000),
        size("embedding_dim", 256, 512, 768, 1024),
    )
    arguments = "{num_embeddings}, {embedding_dim}"
    return [
        module("Embedding", Family.INDEX, "2", arguments, *table, first=indices, dims="d0 d1 embedding_dim"),
        module("EmbeddingBag", Family.INDEX, "2", arguments + ', mode="{mode}"', *table,
               Parameter(name="mode", choices=("'sum'", "'mean'", "'max'")), first=indices, requires="d1 <= 64",
               dims="d0 embedding_dim"),
    ]  # fmt: skip


def _activations() -> list[Template]:
    act = Family.ACTIVATION
    return [
        module("PReLU", act, "2345", "{d1}"),
        module("ELU", act, "2345", "alpha={alpha}", choose("alpha", 0.5, 1.5), variant="alpha"),
        module("CELU", act, "2345", "alpha={alpha}", choose("alpha", 0.5, 2.0), variant="alpha"),
        module("GELU", act, "2345", 'approximate="tanh"', variant="tanh"),
        module("LeakyReLU", act, "2345", "{slope}", choose("slope", 0.1, 0.2), variant="slope"),
        module("Hardtanh", act, "2345", "{low}, {high}", choose("low", -2.0, -0.5), choose("high", 0.5, 2.0),
               variant="bounds"),
        module("Softplus", act, "2345", "beta={beta}", choose("beta", 2.0, 0.5), variant="beta"),
        module("Softshrink", act, "2345", "{bound}", choose("bound", 0.1, 0.25), variant="bound"),
        module("GLU", act, "2345", "dim=1", requires=_EVEN),
        module("GLU", act, "2345", "dim=-1", requires="last % 2 == 0", variant="last"),
        *(module(name, Family.SOFTMAX, "2345", "dim={dim}", choose("dim", 1, -1))
          for name in ("Softmax", "LogSoftmax", "Softmin")),
    ]  # fmt: skip


def _losses() -> list[Template]:
    """Element by element or row by row: a mean over many independent values tells no inputs apart."""
    loss, none = Family.LOSS, 'reduction="none"'
    same, pair = (tensor("target", "same"),), "{self}({x}, {target})"
    positive, sign = "torch.rand({shape}) + 0.1", "torch.randint(0, 2, ({shape},)) * 2.0 - 1.0"
    classes = (tensor("target", "d0", "torch.randint(0, {d1}, ({shape},))", "int64"),)
    rows = (tensor("other", "same"), tensor("sign", "d0", sign))
    triple = (tensor("positive", "same"), tensor("negative", "same"))
    found = [
        module(name, loss, "2345", none, call=pair, inputs=same)
        for name in ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss")
    ]
    return [
        *found,
        module("KLDivLoss", loss, "234", none, call=pair,
               inputs=(tensor("target", "same", "torch.softmax(torch.randn({shape}), dim=-1)"),)),
        module("BCELoss", loss, "234", none, call=pair, inputs=(tensor("target", "same", "torch.rand({shape})"),)),
        module("BCEWithLogitsLoss", loss, "234", none, call=pair,
               inputs=(tensor("target", "same", "torch.rand({shape})"),)),
        module("PoissonNLLLoss", loss, "234", none, call=pair, inputs=(tensor("target", "same", positive),)),
        module("GaussianNLLLoss", loss, "234", none, call="{self}({x}, {target}, {variance})",
               inputs=(*same, tensor("variance", "same", positive))),
        module("SoftMarginLoss", loss, "2", none, call=pair,
               inputs=(tensor("target", "same", "torch.sign(torch.randn({shape}))"),)),
        module("CrossEntropyLoss", loss, "2", none, call=pair, inputs=classes),
        module("CrossEntropyLoss", loss, "2", none + ", label_smoothing=0.1", call=pair, inputs=classes,
               variant="smoothed"),
        module("MultiMarginLoss", loss, "2", none, call=pair, inputs=classes),
        module("NLLLoss", loss, "2", none, call=pair, inputs=classes),
        module("MultiLabelSoftMarginLoss", loss, "2", none, call=pair,
               inputs=(tensor("target", "same", "torch.rand({shape})"),)),
        module("CosineEmbeddingLoss", loss, "2", none + ", margin=0.1", call="{self}({x}, {other}, {sign})",
               inputs=rows),
        module("MarginRankingLoss", loss, "2", none + ", margin=0.1", call="{self}({x}, {other}, {sign})",
               inputs=(tensor("other", "same"), tensor("sign", "same", "torch.sign(torch.randn({shape}))"))),
        module("TripletMarginLoss", loss, "2", none, call="{self}({x}, {positive}, {negative})", inputs=triple),
        module("CosineSimilarity", Family.DISTANCE, "234", "dim={dim}", choose("dim", 1, -1),
               call="{self}({x}, {other})", inputs=(tensor("other", "same"),)),
        module("PairwiseDistance", Family.DISTANCE, "23", "", call="{self}({x}, {other})",
               inputs=(tensor("other", "same"),)),
    ]  # fmt: skip


def module_templates() -> list[Template]:
    """Every template of the table, in its order."""
    return [
        *_convs(), *_norms(), *_pools(), *_pads(), *_resampling(), *_linears(), *_activations(), *_losses(),
    ]  # fmt: skip
