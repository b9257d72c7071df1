"""The kernels that the suite `edits` begins with."""

from ._kernel import Loop, RowKernel

_TOP = ("real top = xr[0];", Loop("top = fmax(top, (real)xr[i]);"))
_MEAN = ("real mean = 0;", Loop("mean += xr[i];"), "mean /= dim;")
_SUM_OF_EXP = (*_TOP, "real sum = 0;", Loop("sum += exp(xr[i] - top);"))
_SQUARES = ("real sum = 0;", Loop("sum += (real)xr[i] * xr[i];"))

KERNELS = (
    RowKernel(
        "gelu", "GELU in its tanh form, scaled.", ("x",), "return SCALE * F.gelu(x, approximate='tanh')",
        (Loop("const real v = xr[i];\no[i] = SCALE * 0.5f * v * (1 + tanh(0.7978845608f * (v + 0.044715f * v * v * v)));"),),
        ("0.044715f * v * v * v", "0.044715f * v * v"), "negative inputs come out wrong, the more so the larger they are",
    ),
    RowKernel(
        "silu_mul", "SiLU of one matrix times another, scaled.", ("x", "y"), "return SCALE * F.silu(x) * y",
        (Loop("const real v = xr[i];\no[i] = SCALE * v / (1 + exp(-v)) * yr[i];"),),
        ("* yr[i]", "* xr[i]"), "the result does not depend on the second matrix",
    ),
    RowKernel(
        "softmax", "Softmax of each row at a temperature.", ("x",), "return torch.softmax(x * SCALE, -1)",
        (*_TOP, "real sum = 0;", Loop("const real e = exp(SCALE * (xr[i] - top));\no[i] = e;\nsum += e;"),
         Loop("o[i] /= sum;")),
        ("real top = xr[0];", "real top = 90;"), "rows of very negative inputs come out as NaN",
    ),
    RowKernel(
        "log_softmax", "Logarithm of the softmax of each row, scaled.", ("x",), "return SCALE * torch.log_softmax(x, -1)",
        (*_SUM_OF_EXP, "const real off = top + log(sum);", Loop("o[i] = SCALE * (xr[i] - off);")),
        ("top + log(sum)", "log(sum)"), "every row is off by its largest input",
    ),
    RowKernel(
        "layer_norm", "LayerNorm over each row, scaled.", ("x", "w", "b"),
        "return SCALE * F.layer_norm(x, x.shape[-1:], w, b)",
        (*_MEAN, "real var = 0;", Loop("const real d = xr[i] - mean;\nvar += d * d;"),
         "const real s = 1 / sqrt(var / dim + 1e-5f);", Loop("o[i] = SCALE * ((xr[i] - mean) * s * w[i] + b[i]);")),
        ("var / dim", "var / (dim - 1)"), "rows are a little too small, the shorter the more",
    ),
    RowKernel(
        "rms_norm", "RMSNorm over each row, scaled.", ("x", "w"), "return SCALE * F.rms_norm(x, x.shape[-1:], w, 1e-5)",
        (*_SQUARES, "const real s = SCALE / sqrt(sum / dim + 1e-5f);", Loop("o[i] = xr[i] * s * w[i];")),
        (" * w[i]", " * w[0]"), "only the first column has the weight that it should",
    ),
    RowKernel(
        "normalised", "Each row by its length, scaled.", ("x",), "return SCALE * x / (x.norm(dim=-1, keepdim=True) + 0.001)",
        (*_SQUARES, "const real s = SCALE / (sqrt(sum) + 0.001f);", Loop("o[i] = xr[i] * s;")),
        ("sqrt(sum)", "sum"), "long rows come out too short, and short ones too long",
    ),
    RowKernel(
        "centred", "Each row less its mean, scaled.", ("x",), "return SCALE * (x - x.mean(-1, keepdim=True))",
        (*_MEAN, Loop("o[i] = SCALE * (xr[i] - mean);")),
        ("mean /= dim;", "mean /= rows;"), "right where the matrix is square, and wrong elsewhere",
    ),
    RowKernel(
        "sum_of_squares", "Sum of the squares of each row, scaled.", ("x",), "return SCALE * x.square().sum(-1)",
        (*_SQUARES, "o[0] = SCALE * sum;"), ("i < dim", "i < dim - 1"), "the last column does not count", reduces=True,
    ),
    RowKernel(
        "log_sum_exp", "Logarithm of the sum of exponentials of each row, scaled.", ("x",),
        "return SCALE * x.logsumexp(-1)", (*_SUM_OF_EXP, "o[0] = SCALE * (top + log(sum));"),
        ("sum += exp(xr[i] - top)", "sum = exp(xr[i] - top)"), "only the last column counts", reduces=True,
    ),
    RowKernel(
        "entropy", "Entropy of the softmax of each row, scaled.", ("x",),
        "p = torch.log_softmax(x, -1)\nreturn -SCALE * (p.exp() * p).sum(-1)",
        (*_SUM_OF_EXP, "real found = 0;", Loop("const real p = exp(xr[i] - top) / sum;\nfound += p * (xr[i] - top);"),
         "o[0] = SCALE * (log(sum) - found);"),
        ("log(sum) - found", "log(sum) + found"), "rows that are not constant have too little entropy", reduces=True,
    ),
    RowKernel(
        "cosine", "Cosine between the rows of two matrices, scaled.", ("x", "y"),
        "return SCALE * (x * y).sum(-1) / (x.square().sum(-1) * y.square().sum(-1) + 0.001).sqrt()",
        ("real xy = 0, xx = 0, yy = 0;", Loop("xy += (real)xr[i] * yr[i];\nxx += (real)xr[i] * xr[i];\nyy += (real)yr[i] * yr[i];"),
         "o[0] = SCALE * xy / sqrt(xx * yy + 0.001f);"),
        ("yy += (real)yr[i] * yr[i]", "yy += (real)xr[i] * yr[i]"), "wrong unless both matrices are the same", reduces=True,
    ),
    RowKernel(
        "huber", "Huber loss between the rows of two matrices, scaled.", ("x", "y"),
        "return SCALE * F.huber_loss(x, y, reduction='none', delta=0.75).sum(-1)",
        ("real sum = 0;", Loop("const real d = fabs((real)xr[i] - yr[i]);\nsum += d < 0.75f ? 0.5f * d * d : 0.75f * (d - 0.375f);"),
         "o[0] = SCALE * sum;"),
        ("fabs((real)xr[i] - yr[i])", "(real)xr[i] - yr[i]"), "large negative differences make the loss smaller", reduces=True,
    ),
    RowKernel(
        "running_sum", "Running sum along each row, scaled.", ("x",), "return SCALE * x.cumsum(-1)",
        ("real sum = 0;", Loop("sum += xr[i];\no[i] = SCALE * sum;")),
        ("o[i] = SCALE * sum;", "o[i] = SCALE * (sum - xr[i]);"), "each place lacks its own input",
    ),
    RowKernel(
        "running_maximum", "Running maximum along each row, scaled.", ("x",), "return SCALE * x.cummax(-1).values",
        ("real top = xr[0];", Loop("top = fmax(top, (real)xr[i]);\no[i] = SCALE * top;")),
        ("real top = xr[0];", "real top = 0;"), "rows that begin with negative inputs begin with zero",
    ),
    RowKernel(
        "difference", "Difference of each element from the one before it, scaled; the first as it is.", ("x",),
        "return SCALE * torch.cat((x[:, :1], x.diff(dim=-1)), -1)",
        ("real before = 0;", Loop("o[i] = SCALE * (xr[i] - before);\nbefore = xr[i];")),
        ("before = xr[i];", "before = o[i];"), "only the first two columns are right",
    ),
    RowKernel(
        "blended", "A weighted mean of two matrices, the weight of each column a sigmoid; scaled.", ("x", "y", "w"),
        "s = torch.sigmoid(w)\nreturn SCALE * (s * x + (1 - s) * y)",
        (Loop("const real s = 1 / (1 + exp(-(real)w[i]));\no[i] = SCALE * (s * xr[i] + (1 - s) * yr[i]);"),),
        ("exp(-(real)w[i])", "exp((real)w[i])"), "the two matrices have changed their places",
    ),
)  # fmt: skip
"""Each with a wrong form and what its user sees of that."""
