"""Layers and functions of torch and layers of transformers, as task files: what is built and what it is called with."""

from collections.abc import Iterator

X, IMAGE, TOKENS, SIGNAL, VOLUME = (
    "torch.randn(64, 512)",
    "torch.randn(8, 32, 28, 28)",
    "torch.randn(4, 128, 256)",
    "torch.randn(8, 32, 256)",
    "torch.randn(2, 16, 12, 12, 12)",
)
_LABELS, _OTHER = "torch.randint(0, 512, (64,))", "torch.rand(64, 512)"
_SIGNS = "torch.randint(0, 2, (64,)).float() * 2 - 1"

MODULES: dict[str, tuple[str, ...]] = {
    X: (
        "ELU()",
        "Hardshrink()",
        "Hardsigmoid()",
        "Hardtanh()",
        "Hardswish()",
        "LeakyReLU()",
        "LogSigmoid()",
        "PReLU()",
        "ReLU()",
        "ReLU6()",
        "RReLU()",
        "SELU()",
        "CELU()",
        "GELU()",
        "GELU('tanh')",
        "Sigmoid()",
        "SiLU()",
        "Mish()",
        "Softplus()",
        "Softshrink()",
        "Softsign()",
        "Tanh()",
        "Tanhshrink()",
        "Threshold(0.1, 20)",
        "GLU()",
        "Softmin(1)",
        "Softmax(1)",
        "LogSoftmax(1)",
        "Identity()",
        "Linear(512, 256)",
        "Linear(512, 256, bias=False)",
        "Dropout(0.5)",
        "AlphaDropout(0.5)",
        "FeatureAlphaDropout(0.5)",
        "BatchNorm1d(512)",
        "LayerNorm(512)",
        "RMSNorm(512)",
        "GroupNorm(8, 512)",
        "Flatten()",
        "Unflatten(1, (16, 32))",
        "Sequential(nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, 10))",
        "AdaptiveLogSoftmaxWithLoss(512, 100, [10, 50]).log_prob",
    ),
    IMAGE: (
        "Conv2d(32, 64, 3, padding=1)",
        "Conv2d(32, 32, 3, groups=32)",
        "Conv2d(32, 64, 3, stride=2, dilation=2)",
        "ConvTranspose2d(32, 16, 3, stride=2)",
        "LazyConv2d(16, 3)",
        "MaxPool2d(2)",
        "AvgPool2d(2)",
        "LPPool2d(2, 2)",
        "FractionalMaxPool2d(3, output_size=14)",
        "AdaptiveAvgPool2d((7, 7))",
        "AdaptiveMaxPool2d(7)",
        "BatchNorm2d(32)",
        "InstanceNorm2d(32)",
        "InstanceNorm2d(32, affine=True)",
        "GroupNorm(4, 32)",
        "LocalResponseNorm(2)",
        "CrossMapLRN2d(3)",
        "Dropout2d()",
        "Softmax2d()",
        "PixelShuffle(2)",
        "PixelUnshuffle(2)",
        "ChannelShuffle(4)",
        "Upsample(scale_factor=2)",
        "UpsamplingBilinear2d(scale_factor=2)",
        "UpsamplingNearest2d(scale_factor=2)",
        "Unfold(3)",
        "ReflectionPad2d(1)",
        "ReplicationPad2d(2)",
        "ZeroPad2d(1)",
        "ConstantPad2d(1, 0.5)",
        "CircularPad2d(1)",
        "MaxPool2d(3, stride=2, padding=1, return_indices=True)",
        "Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU())",
    ),
    SIGNAL: (
        "Conv1d(32, 64, 3)",
        "ConvTranspose1d(32, 16, 4, 2)",
        "MaxPool1d(2)",
        "AvgPool1d(3)",
        "LPPool1d(2, 3)",
        "AdaptiveAvgPool1d(16)",
        "AdaptiveMaxPool1d(16)",
        "BatchNorm1d(32)",
        "InstanceNorm1d(32)",
        "Dropout1d()",
        "ReflectionPad1d(3)",
        "ReplicationPad1d(3)",
        "ZeroPad1d(2)",
        "ConstantPad1d(2, 1.0)",
        "CircularPad1d(2)",
    ),
    VOLUME: (
        "Conv3d(16, 8, 3)",
        "ConvTranspose3d(16, 8, 3)",
        "MaxPool3d(2)",
        "AvgPool3d(2)",
        "AdaptiveAvgPool3d(3)",
        "AdaptiveMaxPool3d(3)",
        "BatchNorm3d(16)",
        "InstanceNorm3d(16)",
        "Dropout3d()",
        "ReflectionPad3d(1)",
        "ReplicationPad3d(1)",
        "ZeroPad3d(1)",
        "ConstantPad3d(1, 2.0)",
        "CircularPad3d(1)",
    ),
    TOKENS: (
        "RNN(256, 64, batch_first=True)",
        "LSTM(256, 64, 2)",
        "GRU(256, 64, bidirectional=True)",
        "TransformerEncoderLayer(256, 4, batch_first=True)",
        "TransformerEncoderLayer(256, 4, 512, 0.0)",
        "TransformerEncoder(nn.TransformerEncoderLayer(256, 4, 256), 2)",
        "LayerNorm(256)",
        "Linear(256, 64)",
    ),
    f"{X}, {X}": (
        "CosineSimilarity()",
        "PairwiseDistance()",
        "Bilinear(512, 512, 8)",
        "L1Loss()",
        "MSELoss()",
        "HuberLoss()",
        "SmoothL1Loss()",
        "SoftMarginLoss()",
    ),
    f"{X}, {_OTHER}": (
        "BCEWithLogitsLoss()",
        "KLDivLoss()",
        "PoissonNLLLoss()",
        "MultiLabelSoftMarginLoss()",
    ),
    f"{_OTHER}, {_OTHER}": ("BCELoss()",),
    f"{X}, {_LABELS}": (
        "CrossEntropyLoss()",
        "CrossEntropyLoss(label_smoothing=0.1)",
        "NLLLoss()",
        "MultiMarginLoss()",
        "CrossEntropyLoss(reduction='none')",
    ),
    f"{X}, torch.randint(0, 512, (64, 512))": ("MultiLabelMarginLoss()",),
    f"{X}, {X}, {X}": ("TripletMarginLoss()", "TripletMarginWithDistanceLoss()"),
    f"{X}, {X}, {_OTHER}": ("GaussianNLLLoss()",),
    f"{X}, {X}, {_SIGNS}": ("CosineEmbeddingLoss()",),
    f"torch.randn(64), torch.randn(64), {_SIGNS}": ("MarginRankingLoss()",),
    f"torch.randn(64), {_SIGNS}": ("HingeEmbeddingLoss()",),
    f"{TOKENS}, {TOKENS}": ("Transformer(256, 4, 1, 1, 256)", "TransformerDecoderLayer(256, 4, 256)"),
    f"{TOKENS}, {TOKENS}, {TOKENS}": (
        "MultiheadAttention(256, 4)",
        "MultiheadAttention(256, 8, batch_first=True)",
    ),
    "torch.randn(64, 256)": ("RNNCell(256, 128)", "LSTMCell(256, 128)", "GRUCell(256, 128)"),
    "torch.randint(0, 1000, (64, 32))": (
        "Embedding(1000, 64)",
        "EmbeddingBag(1000, 64)",
        "Embedding(1000, 64, padding_idx=0)",
    ),
    "torch.randn(30, 16, 20).log_softmax(2), torch.randint(1, 20, (16, 15)), "
    "torch.full((16,), 30), torch.full((16,), 10)": ("CTCLoss()",),
    "torch.randn(4, 72, 100)": ("Fold((12, 12), 3)",),
}
"""Inputs, and the layers of `torch.nn` that take them."""

FUNCTIONS: dict[str, tuple[str, ...]] = {
    X: (
        "F.gelu(x)",
        "F.layer_norm(x, (512,))",
        "F.rms_norm(x, (512,))",
        "F.normalize(x)",
        "F.softmax(x, dim=0)",
        "F.glu(x)",
        "F.pdist(x)",
        "F.gumbel_softmax(x)",
        "x.cumsum(1)",
        "x.cumprod(1)",
        "x.logsumexp(1)",
        "x.sort(1)",
        "x.topk(16, 1)",
        "x.argmax(1)",
        "x.var(1)",
        "x.std(0)",
        "x.norm(dim=1)",
        "x.median(1)",
        "x.mean()",
        "x.prod(1)",
        "torch.fft.fft(x).abs()",
        "torch.triu(x)",
        "x.roll(3, 1)",
        "x.flip(1)",
        "x.t().contiguous()",
        "x.unfold(1, 16, 8)",
        "torch.quantile(x, 0.5, dim=1)",
        "x.unique_consecutive()",
        "torch.erfinv(x.tanh())",
        "torch.special.i0(x)",
        "torch.nan_to_num(x.log())",
        "x @ x.t()",
        "torch.cov(x)",
        "torch.diff(x)",
        "x.view(64, 16, 32).transpose(1, 2)",
        "torch.linalg.norm(x)",
        "torch.cdist(x, x)",
        "torch.histc(x)",
        "x.clamp(-1, 1)",
        "torch.lerp(x, -x, 0.25)",
    ),
    f"{X}, {X}": (
        "F.cosine_similarity(x, y)",
        "torch.maximum(x, y)",
        "torch.where(x > y, x, y)",
        "torch.addcmul(x, x, y)",
        "torch.hypot(x, y)",
        "torch.einsum('bd,cd->bc', x, y)",
        "torch.cat([x, y], 1)",
        "torch.stack([x, y])",
        "x @ y.t()",
        "torch.kron(x[:4, :4], y[:8, :8])",
        "F.mse_loss(x, y)",
        "torch.outer(x[0], y[0])",
        "torch.searchsorted(x.sort(1)[0], y)",
    ),
    f"{X}, {_LABELS}": (
        "F.cross_entropy(x, y)",
        "F.nll_loss(x.log_softmax(1), y)",
        "x.gather(1, y[:, None])",
        "F.one_hot(y, 512) * x",
    ),
    "torch.randn(512, 32000), torch.randint(0, 32000, (512,))": ("F.cross_entropy(x, y)",),
    "torch.randint(0, 1000, (64, 32)), torch.randn(1000, 64)": (
        "F.embedding(x, y)",
        "y[x]",
        "F.embedding_bag(x, y)",
    ),
    "torch.randn(1000, 64), torch.randint(0, 1000, (256,))": (
        "x.index_select(0, y)",
        "torch.zeros(1000, 64).index_add(0, y, x[:256])",
        "x.take_along_dim(y[:, None], 0)",
    ),
    "torch.randn(2, 8, 128, 64), torch.randn(2, 8, 128, 64)": (
        "F.scaled_dot_product_attention(x, y, y)",
        "F.scaled_dot_product_attention(x, y, y, is_causal=True)",
        "x @ y.mT",
    ),
    IMAGE: (
        "F.interpolate(x, scale_factor=2, mode='bicubic')",
        "F.interpolate(x, size=(14, 14))",
        "F.pad(x, (1, 2, 3, 4))",
        "F.avg_pool2d(x, 3)",
        "F.unfold(x, 3)",
        "x.mean((2, 3))",
        "x.amax((2, 3))",
        "F.pixel_shuffle(x, 4)",
        "F.instance_norm(x)",
        "x.to(memory_format=torch.channels_last)",
    ),
    "torch.randn(16, 64, 64)": (
        "torch.linalg.inv(x + 64 * torch.eye(64))",
        "torch.bmm(x, x)",
        "torch.linalg.det(x)",
        "x.tril()",
    ),
    f"{IMAGE}, torch.rand(8, 16, 16, 2) * 2 - 1": ("F.grid_sample(x, y, align_corners=False)",),
}
"""Inputs, and expressions over `x` and `y`."""

_TINY = (
    "hidden_size=128, num_hidden_layers=2, num_attention_heads=4, "
    "intermediate_size=256, vocab_size=1000, pad_token_id=0"
)
_DECODERS = (
    "Llama",
    "Mistral",
    "Qwen2",
    "Qwen3",
    "Gemma",
    "Gemma2",
    "Phi",
    "Phi3",
    "GPTNeoX",
    "StableLm",
    "Olmo",
    "Olmo2",
    "Cohere",
    "Starcoder2",
    "Granite",
)
_HEADED = ("StableLm", "Mistral", "Qwen2", "Qwen3", "Gemma", "Gemma2")
_ENCODERS = (
    "Bert",
    "Roberta",
    "Electra",
    "Deberta",
    "ConvBert",
    "XLMRoberta",
    "Ernie",
    "MPNet",
    "RoFormer",
    "MobileBert",
)


def sources() -> Iterator[tuple[str, str, str]]:
    """Yield group, name and text of every file."""
    for inputs, layers in MODULES.items():
        for layer in layers:
            yield (
                "torch.nn",
                layer,
                _file(f"self.layer = nn.{layer}", "self.layer(*inputs)", inputs, "*inputs"),
            )
    for inputs, expressions in FUNCTIONS.items():
        names = "x, y" if _arity(inputs) == 2 else "x"
        for expression in expressions:
            yield "torch", f"{expression} of {inputs}", _file("pass", expression, inputs, names)
    ids = "torch.randint(0, 1000, (2, 64))"
    for family in (*_DECODERS, *_ENCODERS):
        sizes = f"{_TINY}, num_key_value_heads=4, head_dim=32" if family in _HEADED else _TINY
        made = f"self.model = transformers.{family}Model(transformers.{family}Config({sizes}))"
        yield (
            "transformers",
            family,
            _file(made, "self.model(ids).last_hidden_state", ids, "ids", "import transformers\n"),
        )


def _arity(inputs: str) -> int:
    depth = commas = 0
    for letter in inputs:
        depth += (letter in "([") - (letter in ")]")
        commas += letter == "," and depth == 0
    return commas + 1


def _file(init: str, body: str, inputs: str, names: str, imports: str = "") -> str:
    return (
        f"import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n{imports}\n\n"
        f"class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n\n"
        f"    def forward(self, {names}):\n        return {body}\n\n\n"
        f"def get_inputs():\n    return [{inputs}]\n"
    )
