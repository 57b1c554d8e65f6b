"""Templates of functions of torch and `torch.nn.functional` that take more than one tensor of one shape.

Functions of one or two tensors of one shape are found by trying them (`crawl_torch`).
"""

from warpsmith.synthesis.records import Family, InputTemplate
from warpsmith.synthesis.templates import Template, choose, function, size, tensor

_DIM = choose("dim", -1, 1)
_OUT = size("out_channels", "d1", "2 * d1", "32", "64", "128")
_OUT_FEATURES = size("out_features", "last", "2 * last", "last // 2", "256", "512", "1024")
_SAME = (tensor("other", "same"),)
_MIDDLE = "last >= 16; last <= 8192"


def _weight(name: str, shape: str, fan_in: str) -> InputTemplate:
    """A weight as an input, drawn so that a product neither vanishes nor grows."""
    return tensor(name, shape, f"torch.randn({{shape}}) / ({fan_in}) ** 0.5")


def _reductions() -> list[Template]:
    red = Family.REDUCTION
    plain = ("sum", "mean", "amax", "amin", "logsumexp", "std", "var", "nansum", "nanmean", "prod")
    found = []
    for name in plain:
        limit = "last <= 64; d1 <= 64" if name == "prod" else ""
        found += [
            function(f"torch.{name}", red, "2345", "{x}, dim={dim}", _DIM, requires=limit),
            function(f"torch.{name}", red, "2345", "{x}, dim={dim}, keepdim=True", _DIM, variant="keepdim",
                     requires=limit),
        ]  # fmt: skip
    for name in ("sum", "mean", "amax", "amin", "logsumexp", "std", "var"):
        found.append(function(f"torch.{name}", red, "4", "{x}, dim=(2, 3)", variant="spatial"))
    for name in ("max", "min", "median", "nanmedian", "cummax", "cummin", "mode"):
        family = Family.SCAN if name.startswith("cum") else red
        # the mode of continuous values is no question
        if name != "mode":
            found.append(
                function(f"torch.{name}", family, "2345", "{x}, dim={dim}", _DIM, suffix=".values", requires=_MIDDLE
                         if "median" in name else "")
            )  # fmt: skip
    return [
        *found,
        function("torch.kthvalue", Family.SORT, "234", "{x}, {k}, dim=-1", choose("k", 2, 5), suffix=".values",
                 requires=_MIDDLE),
        function("torch.quantile", Family.SORT, "23", "{x}, 0.9, dim=-1", requires=_MIDDLE),
        function("torch.linalg.vector_norm", red, "2345", "{x}, ord={ord}, dim={dim}", choose("ord", 2, 1), _DIM),
        function("torch.norm", red, "2345", "{x}, p={p}, dim={dim}", choose("p", 2, 1, 3), _DIM),
        function("torch.aminmax", red, "2345", "{x}, dim=-1", suffix=".max"),
        function("torch.var_mean", red, "2345", "{x}, dim={dim}", _DIM, suffix="[0]"),
        function("torch.std_mean", red, "2345", "{x}, dim={dim}", _DIM, suffix="[0]"),
        function("torch.trapezoid", red, "2345", "{x}, dim={dim}", _DIM),
        function("torch.argmax", red, "2345", "{x}, dim=-1", ends=True),
        function("torch.argmin", red, "2345", "{x}, dim=-1", ends=True),
        function("torch.renorm", Family.NORM, "234", "{x}, p=2, dim=0, maxnorm={maxnorm}",
                 choose("maxnorm", 1.0, 5.0)),
        function("torch.cov", red, "2", "{x}", requires="d0 <= 4096"),
        function("torch.corrcoef", red, "2", "{x}", requires="d0 <= 4096"),
    ]  # fmt: skip


def _scans() -> list[Template]:
    scan = Family.SCAN
    return [
        function("torch.cumsum", scan, "2345", "{x}, dim={dim}", _DIM),
        function("torch.cumprod", scan, "2345", "{x}, dim={dim}", _DIM, requires="last <= 128; d1 <= 128"),
        function("torch.logcumsumexp", scan, "2345", "{x}, dim={dim}", _DIM),
        function("torch.cumulative_trapezoid", scan, "2345", "{x}, dim={dim}", _DIM),
        function("torch.diff", scan, "2345", "{x}, dim={dim}", _DIM),
        function("torch.gradient", scan, "234", "{x}, dim=-1", suffix="[0]"),
        function("torch.sort", Family.SORT, "234", "{x}, dim=-1", suffix=".values", requires=_MIDDLE),
        function("torch.sort", Family.SORT, "234", "{x}, dim=-1, descending=True", suffix=".values", requires=_MIDDLE,
                 variant="descending"),
        function("torch.topk", Family.SORT, "234", "{x}, {k}, dim=-1", choose("k", 4, 8, 16), suffix=".values",
                 requires="last >= 64; last <= 8192"),
        function("torch.msort", Family.SORT, "2", "{x}", requires="d0 <= 8192"),
    ]  # fmt: skip


def _softmaxes() -> list[Template]:
    soft = Family.SOFTMAX
    return [
        *(function(f"F.{name}", soft, "2345", "{x}, dim={dim}", _DIM) for name in ("softmax", "log_softmax",
                 "softmin")),
        function("F.normalize", Family.NORM, "2345", "{x}, p={p}, dim={dim}", choose("p", 2.0, 1.0), _DIM),
        function("F.layer_norm", Family.NORM, "2345", "{x}, {x}.shape[-1:]"),
        function("F.layer_norm", Family.NORM, "345", "{x}, {x}.shape[-2:]", variant="two_dims"),
        function("F.rms_norm", Family.NORM, "2345", "{x}, {x}.shape[-1:]"),
        function("F.rms_norm", Family.NORM, "234", "{x}, {x}.shape[-1:], {weight}", variant="weighted",
                 inputs=(tensor("weight", "last", "torch.rand({shape}) + 0.5"),)),
        function("F.group_norm", Family.NORM, "345", "{x}, {groups}", choose("groups", 2, 4, 8),
                 requires="d1 % groups == 0; d1 > groups"),
        function("F.local_response_norm", Family.NORM, "345", "{x}, {window}", choose("window", 3, 5)),
        function("F.batch_norm", Family.NORM, "2345", "{x}, {mean}, {var}",
                 inputs=(tensor("mean", "d1"), tensor("var", "d1", "torch.rand({shape}) + 0.5"))),
        function("F.batch_norm", Family.NORM, "2345", "{x}, {mean}, {var}, {weight}, {bias}", variant="affine",
                 inputs=(tensor("mean", "d1"), tensor("var", "d1", "torch.rand({shape}) + 0.5"),
                         tensor("weight", "d1"), tensor("bias", "d1"))),
        function("F.batch_norm", Family.NORM, "345", "{x}, None, None, training=True", variant="batch_statistics"),
    ]  # fmt: skip


def _products() -> list[Template]:
    lin = Family.LINEAR
    wide = "last >= 32; last <= 8192"
    return [
        function("torch.matmul", lin, "234", "{x}, {weight}", _OUT_FEATURES, requires=wide,
                 inputs=(_weight("weight", "last out_features", "{last}"),)),
        function("torch.mm", lin, "2", "{x}, {weight}", _OUT_FEATURES, requires=wide,
                 inputs=(_weight("weight", "last out_features", "{last}"),)),
        function("torch.bmm", lin, "3", "{x}, {weight}", _OUT_FEATURES, requires=wide,
                 inputs=(_weight("weight", "d0 last out_features", "{last}"),), dims="d0 d1 out_features"),
        function("F.linear", lin, "234", "{x}, {weight}, {bias}", _OUT_FEATURES, requires=wide,
                 inputs=(_weight("weight", "out_features last", "{last}"), tensor("bias", "out_features"))),
        function("torch.addmm", lin, "2", "{bias}, {x}, {weight}, beta={beta}, alpha={alpha}", _OUT_FEATURES,
                 choose("alpha", 0.5, 1.5), choose("beta", 0.5, 1.0, 2.0), requires=wide,
                 inputs=(tensor("bias", "out_features"), _weight("weight", "last out_features", "{last}"))),
        function("torch.baddbmm", lin, "3", "{bias}, {x}, {weight}", _OUT_FEATURES, requires=wide,
                 inputs=(tensor("bias", "d0 d1 out_features"), _weight("weight", "d0 last out_features", "{last}"))),
        function("torch.addbmm", lin, "3", "{bias}, {x}, {weight}", _OUT_FEATURES, requires=wide + "; d0 <= 512",
                 inputs=(tensor("bias", "d1 out_features"),
                 _weight("weight", "d0 last out_features", "{d0} * {last}"))),
        function("torch.mv", lin, "2", "{x}, {vector}", requires=wide, inputs=(tensor("vector", "last"),)),
        function("torch.addmv", lin, "2", "{bias}, {x}, {vector}", requires=wide,
                 inputs=(tensor("bias", "d0"), tensor("vector", "last"))),
        function("torch.einsum", lin, "4", "'bchw,co->bohw', {x}, {weight}", _OUT,
                 inputs=(_weight("weight", "d1 out_channels", "{d1}"),), dims="d0 out_channels d2 d3",
                 variant="channels"),
        function("torch.einsum", lin, "3", "'bld,bmd->blm', {x}, {other}",
                 inputs=(_weight("other", "d0 d1 last", "{last}"),),
                 requires="d1 <= 4096; last >= 16", variant="scores", dims="d0 d1 d1"),
        function("torch.einsum", lin, "3", "'bld,d->bl', {x}, {vector}",
                 inputs=(_weight("vector", "last", "{last}"),),
                 variant="vector", dims="d0 d1"),
        function("torch.tensordot", lin, "3", "{x}, {weight}, dims=2", _OUT_FEATURES,
                 inputs=(_weight("weight", "d1 last out_features", "{d1} * {last}"),), requires="d1 * last <= 65536",
                 dims="d0 out_features"),
        function("torch.linalg.multi_dot", lin, "2", "[{x}, {down}, {up}]", size("rank", 16, 32, 64), _OUT_FEATURES,
                 inputs=(_weight("down", "last rank", "{last}"), _weight("up", "rank out_features", "{rank}")),
                 requires=wide, dims="d0 out_features"),
        function("torch.inner", lin, "23", "{x}, {vector}", inputs=(_weight("vector", "last", "{last}"),),
                 requires=wide),
        function("torch.linalg.vecdot", lin, "23", "{x}, {other}", inputs=_SAME),
        function("F.bilinear", lin, "2", "{x}, {other}, {weight}", size("out_features", 16, 32),
                 requires="last <= 128",
                 inputs=(*_SAME, _weight("weight", "out_features last last", "{last} * {last}")),
                 dims="d0 out_features"),
        function("F.scaled_dot_product_attention", Family.ATTENTION, "4", "{x}, {key}, {value}", inputs=(
                 tensor("key", "same"), tensor("value", "same")),
                 requires="d2 >= 64; d2 <= 4096; d3 >= 32; d3 <= 128"),
        function("F.scaled_dot_product_attention", Family.ATTENTION, "4", "{x}, {key}, {value}, is_causal=True",
                 inputs=(tensor("key", "same"), tensor("value", "same")), variant="causal",
                 requires="d2 >= 64; d2 <= 4096; d3 >= 32; d3 <= 128"),
        *_conv_functions(),
    ]  # fmt: skip


def _conv_functions() -> list[Template]:
    found = []
    for n in (1, 2, 3):
        rank, spread = str(n + 2), " ".join(["kernel_size"] * n)
        kernel = choose("kernel_size", *((3, 5) if n < 3 else (3,)))
        where = " ".join("?" * n)
        found += [
            function(f"F.conv{n}d", Family.CONV, rank, "{x}, {weight}, padding={padding}", _OUT, kernel,
                     choose("padding", "kernel_size // 2"), dims=f"d0 out_channels {where}",
                     inputs=(_weight("weight", f"out_channels d1 {spread}", "{d1} * {kernel_size} ** " + str(n)),)),
            function(f"F.conv_transpose{n}d", Family.CONV, rank, "{x}, {weight}", _OUT, kernel,
                     dims=f"d0 out_channels {where}",
                     inputs=(_weight("weight", f"d1 out_channels {spread}", "{d1} * {kernel_size} ** " + str(n)),)),
        ]  # fmt: skip
    return found


def _pairs() -> list[Template]:
    """Several tensors, combined element by element or by shape."""
    bi = Family.BINARY
    vector, channel = (tensor("other", "last"),), (tensor("other", "d1 1 1"),)
    condition = tensor("condition", "same", "torch.rand({shape}) > {share}", "bool")
    share = choose("share", 0.5, 0.2)
    found = []
    for name in ("add", "sub", "mul", "maximum", "minimum"):
        found += [
            function(f"torch.{name}", bi, "2345", "{x}, {other}", inputs=vector, variant="vector"),
            function(f"torch.{name}", bi, "4", "{x}, {other}", inputs=channel, variant="channel"),
        ]
    positive = (tensor("other", "last", "torch.rand({shape}) + 0.5"),)
    return [
        *found,
        function("torch.div", bi, "2345", "{x}, {other}", inputs=positive, variant="vector"),
        function("torch.addcmul", bi, "2345", "{x}, {first}, {second}, value={value}", choose("value", 0.5, 2.0),
                 inputs=(tensor("first", "same"), tensor("second", "same"))),
        function("torch.addcdiv", bi, "2345", "{x}, {first}, {second}, value={value}", choose("value", 0.5, 2.0),
                 inputs=(tensor("first", "same"), tensor("second", "same", "torch.rand({shape}) + 0.5"))),
        function("torch.lerp", bi, "2345", "{x}, {end}, {weight}", choose("weight", 0.3, 0.7),
                 inputs=(tensor("end", "same"),)),
        function("torch.where", bi, "2345", "{condition}, {x}, {other}", share, inputs=(condition, *_SAME)),
        function("torch.masked_fill", bi, "2345", "{x}, {condition}, {value}", share, choose("value", 0.0, -1.0),
                 inputs=(condition,)),
        function("torch.cat", Family.RESHAPE, "2345", "[{x}, {other}], dim={dim}", _DIM, inputs=_SAME),
        function("torch.stack", Family.RESHAPE, "234", "[{x}, {other}], dim={dim}", choose("dim", 1, -1),
                 inputs=_SAME),
        function("torch.cdist", Family.DISTANCE, "3", "{x}, {other}", inputs=_SAME, dims="d0 d1 d1",
                 requires="d1 <= 4096; last <= 1024"),
        function("torch.cross", Family.OTHER, "2", "{x}, {other}, dim=-1", inputs=_SAME, requires="last == 3"),
        function("torch.clamp", Family.ELEMENTWISE, "2345", "{x}, {low}, {high}", choose("low", -1.0, -0.5),
                 choose("high", 0.5, 1.0, 2.0)),
        function("torch.clamp", Family.ELEMENTWISE, "2345", "{x}, min={low}", choose("low", 0.1, -0.5),
                 variant="min"),
        function("torch.pow", Family.ELEMENTWISE, "2345", "{x}, {exponent}", choose("exponent", 2, 3)),
        function("torch.mul", Family.ELEMENTWISE, "2345", "{x}, {factor}", choose("factor", 0.5, 2.0, 0.1),
                 variant="scalar"),
        function("torch.add", Family.ELEMENTWISE, "2345", "{x}, {term}", choose("term", 1.0, 0.5, 3.0),
                 variant="scalar"),
        function("torch.div", Family.ELEMENTWISE, "2345", "{x}, {divisor}", choose("divisor", 2.0, 8.0),
                 variant="scalar"),
    ]  # fmt: skip


def _shapes() -> list[Template]:
    shape, index = Family.RESHAPE, Family.INDEX
    chosen = tensor("index", "d1", "torch.randint(0, {d1}, ({shape},))", "int64")
    rows = tensor("index", "d0", "torch.randint(0, {d0}, ({shape},))", "int64")
    anywhere = tensor("index", "same", "torch.randint(0, {last}, ({shape}))", "int64")
    return [
        function("torch.transpose", shape, "345", "{x}, 1, 2"),
        function("torch.permute", shape, "4", "{x}, (0, 2, 3, 1)", dims="d0 d2 d3 d1"),
        function("torch.permute", shape, "3", "{x}, (0, 2, 1)", dims="d0 d2 d1", variant="sequence"),
        function("torch.flip", shape, "2345", "{x}, dims=({dim},)", _DIM),
        function("torch.roll", shape, "2345", "{x}, {shift}, dims={dim}", choose("shift", 1, 3), _DIM),
        function("torch.tile", shape, "23", "{x}, (1, 2)", variant="tail", requires="last <= 4096"),
        function("torch.repeat_interleave", shape, "234", "{x}, 2, dim=-1"),
        function("torch.flatten", shape, "345", "{x}, 1"),
        function("torch.narrow", shape, "2345", "{x}, 1, 0, {x}.shape[1] // 2", requires="d1 % 2 == 0; d1 > 4"),
        function("torch.chunk", shape, "2345", "{x}, 2, dim=1", suffix="[1]", requires="d1 % 2 == 0; d1 > 4"),
        function("torch.unfold_copy", shape, "3", "{x}, 2, {window}, {window}", choose("window", 4, 8),
                 requires="d2 % window == 0"),
        function("torch.diagonal", shape, "34", "{x}, dim1=-2, dim2=-1"),
        function("torch.diag_embed", shape, "2", "{x}", requires="last <= 512"),
        function("torch.tril", Family.ELEMENTWISE, "23", "{x}"),
        function("torch.triu", Family.ELEMENTWISE, "23", "{x}, diagonal=1"),
        function("torch.rot90", shape, "4", "{x}, 1, (2, 3)"),
        function("torch.index_select", index, "234", "{x}, 1, {index}", inputs=(chosen,)),
        function("torch.index_select", index, "23", "{x}, 0, {index}", inputs=(rows,), variant="rows"),
        function("torch.gather", index, "234", "{x}, -1, {index}", inputs=(anywhere,)),
        function("torch.take_along_dim", index, "234", "{x}, {index}, dim=-1", inputs=(anywhere,)),
        function("torch.scatter_add", index, "2", "{x}, -1, {index}, {values}",
                 inputs=(anywhere, tensor("values", "same"))),
        function("torch.index_add", index, "23", "{x}, 0, {index}, {values}",
                 inputs=(rows, tensor("values", "same"))),
        function("F.pad", shape, "345", "{x}, ({padding}, {padding})", choose("padding", 1, 2, 4)),
        function("F.pad", shape, "4", '{x}, ({padding}, {padding}, {padding}, {padding}), mode="{mode}"',
                 choose("padding", 1, 2), choose("mode", "'reflect'", "'replicate'"), variant="edges"),
        function("F.pixel_shuffle", shape, "4", "{x}, 2", requires="d1 % 4 == 0"),
        function("F.pixel_unshuffle", shape, "4", "{x}, 2", requires="d2 % 2 == 0; d3 % 2 == 0"),
        function("F.unfold", shape, "4", "{x}, {kernel_size}, padding=1", choose("kernel_size", 3)),
        function("F.channel_shuffle", shape, "4", "{x}, {groups}", choose("groups", 2, 4),
                 requires="d1 % groups == 0"),
        function("F.glu", Family.ACTIVATION, "2345", "{x}, dim={dim}", _DIM, requires="d1 % 2 == 0; last % 2 == 0"),
        function("F.interpolate", Family.RESAMPLE, "4", '{x}, scale_factor=2, mode="{mode}"',
                 choose("mode", "'bilinear'", "'bicubic'", "'nearest'", "'area'")),
        function("F.interpolate", Family.RESAMPLE, "4", '{x}, scale_factor=0.5, mode="bilinear"', variant="half"),
        function("F.grid_sample", Family.RESAMPLE, "4", "{x}, {grid}, align_corners=False",
                 inputs=(tensor("grid", "d0 d2 d3 2", "torch.rand({shape}) * 2 - 1"),)),
    ]  # fmt: skip


def _pools_and_losses() -> list[Template]:
    found = []
    for n in (1, 2, 3):
        rank = str(n + 2)
        for kind in ("avg_pool", "max_pool"):
            found.append(
                function(
                    f"F.{kind}{n}d", Family.POOL, rank, "{x}, {kernel_size}", choose("kernel_size", 2, 3)
                )
            )
        for kind in ("adaptive_avg_pool", "adaptive_max_pool"):
            found.append(function(f"F.{kind}{n}d", Family.POOL, rank, "{x}, 1"))
        found.append(
            function(
                f"F.lp_pool{n}d", Family.POOL, rank, "{x}, 2.0, {kernel_size}", choose("kernel_size", 2, 3)
            )
        )
    target = (tensor("target", "same"),)
    unit = (tensor("target", "same", "torch.rand({shape})"),)
    classes = (tensor("target", "d0", "torch.randint(0, {d1}, ({shape},))", "int64"),)
    none = '{x}, {target}, reduction="none"'
    return [
        *found,
        *(function(f"F.{name}", Family.LOSS, "2345", none, inputs=target)
          for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")),
        function("F.binary_cross_entropy_with_logits", Family.LOSS, "234", none, inputs=unit),
        function("F.kl_div", Family.LOSS, "234", none, inputs=unit),
        function("F.poisson_nll_loss", Family.LOSS, "234", none, inputs=unit),
        function("F.cross_entropy", Family.LOSS, "2", none, inputs=classes),
        function("F.nll_loss", Family.LOSS, "2", none, inputs=classes),
        function("F.cosine_similarity", Family.DISTANCE, "234", "{x}, {other}, dim={dim}", _DIM, inputs=_SAME),
        function("F.pairwise_distance", Family.DISTANCE, "23", "{x}, {other}", inputs=_SAME),
        function("F.triplet_margin_loss", Family.LOSS, "2", '{x}, {positive}, {negative}, reduction="none"',
                 inputs=(tensor("positive", "same"), tensor("negative", "same"))),
        function("F.leaky_relu", Family.ACTIVATION, "2345", "{x}, {slope}", choose("slope", 0.1, 0.2),
                 variant="slope"),
        function("F.elu", Family.ACTIVATION, "2345", "{x}, alpha={alpha}", choose("alpha", 0.5, 2.0),
                 variant="alpha"),
        function("F.gelu", Family.ACTIVATION, "2345", '{x}, approximate="tanh"', variant="tanh"),
        function("F.hardtanh", Family.ACTIVATION, "2345", "{x}, -2.0, 2.0", variant="bounds"),
        function("F.prelu", Family.ACTIVATION, "2345", "{x}, {slope}",
                 inputs=(tensor("slope", "d1", "torch.rand({shape})"),)),
    ]  # fmt: skip


def function_templates() -> list[Template]:
    """Every template of the table, in its order."""
    return [
        *_reductions(), *_scans(), *_softmaxes(), *_products(), *_pairs(), *_shapes(), *_pools_and_losses(),
    ]  # fmt: skip
