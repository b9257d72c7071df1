"""Changes of the tiny transformer: planted drifts, each with the module that causes it, and honest rewritings."""

import copy
import math
from types import MethodType

import torch
from torch import nn
from torch.nn import functional as F

from kernelwright.models.drift import Deployment, top_p
from kernelwright.models.drift._sampler import nucleus

from .tiny import MLP, Attention, Cap, Gelu, Norm, Rotary

PLANTED, HONEST = {}, {}
"""By name: a function that changes a copy in place; of planted ones also the path of the cause, or of its parent."""


def planted(cause):
    return lambda change: PLANTED.setdefault(change.__name__, (change, cause))


def honest(change):
    return HONEST.setdefault(change.__name__, change)


def changed(model, change, *arguments):
    other = copy.deepcopy(model)
    change(other, *arguments)
    return other


def method(module, name, function):
    setattr(module, name, MethodType(function, module))


def each(model, kind):
    return [m for m in model.modules() if isinstance(m, kind)]


def attention(model, number=1):
    return model.layers[number].attention


# --- planted drifts; `far` is where those that begin late begin


@planted("layers.1.before")
def eps_times_ten(m, far):
    m.layers[1].before.eps *= 10


@planted("norm")
def final_eps_missing(m, far):
    m.norm.eps = 0.0


@planted("layers.2.between")
def mean_over_one_less(m, far):
    def forward(self, x):
        wide = x.float()
        mean = wide.pow(2).sum(-1, keepdim=True) / (x.shape[-1] - 1)
        return self.weight * (wide * torch.rsqrt(mean + self.eps)).to(x.dtype)

    method(m.layers[2].between, "forward", forward)


@planted("layers.1.attention.rotary")
def rope_base_changed(m, far):
    attention(m).rotary.base = 10_500.0


@planted("layers.0.attention.rotary")
def wrong_rotary_half(m, far):
    def turned(self, x):
        return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)

    method(attention(m, 0).rotary, "turned", turned)


@planted("")
def positions_off_by_one_later(m, far):
    def positions(self, mask, new):
        right = (mask.long().cumsum(-1) - 1).clamp(min=0)
        return (right + (right >= far))[:, -new:]

    method(m, "positions", positions)


@planted("layers.1.attention")
def scale_of_head_plus_one(m, far):
    attention(m).scale = 1 / math.sqrt(m.sizes.head + 1)


@planted("layers.2.attention")
def softmax_in_bfloat16(m, far):
    method(attention(m, 2), "probabilities", lambda self, s: s.bfloat16().softmax(-1).to(s.dtype))


@planted("")
def mask_wrong_at_the_last_token(m, far):
    def allowed(self, mask, new):
        right = type(self).allowed(self, mask, new)
        if new > 1:
            right[..., -1, 0] = False
        return right

    method(m, "allowed", allowed)


@planted("")
def one_token_of_the_future(m, far):
    def allowed(self, mask, new):
        total = mask.shape[1]
        causal = torch.ones(new, total, dtype=torch.bool).tril(total - new + 1)
        return mask[:, None, None] & causal | torch.eye(total, dtype=torch.bool)[-new:]

    method(m, "allowed", allowed)


@planted("layers.0.attention")
def cache_off_by_one_later(m, far):
    def remember(self, past, k, v):
        k, v = Attention.remember(self, past, k, v)
        if k.shape[2] > far:
            v = torch.cat((v[:, :, :far], v[:, :, far:].roll(1, 2)), 2) if k.shape[2] > far + 1 else v.clone()
            v[:, :, far] = v[:, :, far - 1]
        return k, v

    method(attention(m, 0), "remember", remember)


@planted("layers.1.attention")
def stale_cache_entry(m, far):
    def remember(self, past, k, v):
        if past is not None and past[0].shape[2] % 4 == 3:
            v = past[1][:, :, -1:].clone()
        return Attention.remember(self, past, k, v)

    method(attention(m), "remember", remember)


@planted("")
def padding_attended(m, far):
    def allowed(self, mask, new):
        return type(self).allowed(self, torch.ones_like(mask), new)

    method(m, "allowed", allowed)


@planted("")
def padding_counted_as_positions(m, far):
    # RoPE is relative, so only a request whose padding ends in the middle of a count would tell: count the mask twice.
    def positions(self, mask, new):
        right = (mask.long().cumsum(-1) - 1).clamp(min=0)
        padded = (~mask).any(-1, keepdim=True)
        return torch.where(padded, right * 2, right)[:, -new:]

    method(m, "positions", positions)


@planted("layers.0.mlp.gelu")
def gelu_by_tanh(m, far):
    method(m.layers[0].mlp.gelu, "forward", lambda self, x: F.gelu(x, approximate="tanh"))


@planted("layers.2.mlp.up")
def sum_in_half_if_batched(m, far):
    def forward(self, x):
        if x.shape[0] == 1:
            return F.linear(x, self.weight, self.bias)
        half = x.shape[-1] // 2
        parts = [
            F.linear(a, w).bfloat16()
            for a, w in zip(x.split(half, -1), self.weight.split(half, -1), strict=True)
        ]
        return (parts[0] + parts[1]).to(x.dtype) + self.bias

    method(m.layers[2].mlp.up, "forward", forward)


@planted("layers.2.mlp.down")
def bias_dropped(m, far):
    m.layers[2].mlp.down.bias = None


@planted("layers.1.attention.out")
def weights_of_one_head_swapped(m, far):
    head = m.sizes.head
    weight = attention(m).out.weight.data
    weight[:, : 2 * head] = torch.cat((weight[:, head : 2 * head], weight[:, :head]), 1)


@planted("layers.0.attention")
def heads_of_a_group_in_another_order(m, far):
    method(
        attention(m, 0), "widened", lambda self, x: x.repeat(1, self.sizes.heads // self.sizes.groups, 1, 1)
    )


@planted("layers.0.attention.q")
def int8_weights(m, far):
    weight = attention(m, 0).q.weight
    scale = weight.data.abs().amax(1, keepdim=True) / 127
    weight.data = (weight.data / scale).round() * scale


@planted("layers.2.mlp.drop")
def dropout_left_on(m, far):
    m.layers[2].mlp.drop.p = 0.05
    m.layers[2].mlp.drop.train()


@planted("cap")
def soft_cap_missing(m, far):
    method(m.cap, "forward", lambda self, x: x)


@planted("layers.1.mlp")
def other_expert_of_a_tie(m, far):
    def choose(self, scores):
        return scores.shape[-1] - 1 - (scores == scores.amax(-1, keepdim=True)).flip(-1).int().argmax(-1)

    method(m.layers[1].mlp, "choose", choose)


@planted("layers.1")
def residual_of_what_was_normed(m, far):
    def forward(self, x, positions, mask, past):
        y, past = self.attention(self.before(x), positions, mask, past)
        x = x + y
        z = self.between(x)
        return z + self.mlp(z), past

    method(m.layers[1], "forward", forward)


@planted("embed")
def embedding_in_ten_bits(m, far):
    scale = m.embed.weight.data.abs().amax() / 512
    m.embed.weight.data = (m.embed.weight.data / scale).round() * scale


# --- samplers


def top_p_off_by_one(share, temperature):
    def sample(logits, generator):
        kept = nucleus(logits, share, temperature)
        least = kept.masked_fill(kept == 0, 2).argmin(-1, keepdim=True)
        kept = kept.scatter(-1, least, 0.0)
        return torch.multinomial(kept / kept.sum(-1, keepdim=True), 1, generator=generator)[:, 0]

    return sample


def temperature_after_the_cut(share, temperature):
    def sample(logits, generator):
        kept = nucleus(logits, share, 1.0) ** (1 / temperature)
        return torch.multinomial(kept, 1, generator=generator)[:, 0]

    return sample


def gumbel(share, temperature):
    """An honest other way to draw."""

    def sample(logits, generator):
        noise = torch.rand(logits.shape, generator=generator, dtype=torch.float64)
        return (nucleus(logits, share, temperature).log() - (-noise.log()).log()).argmax(-1)

    return sample


def inverse(share, temperature):
    """Another: the inverse of the cumulative distribution."""

    def sample(logits, generator):
        total = nucleus(logits, share, temperature).double().cumsum(-1)
        at = torch.rand(len(logits), 1, generator=generator, dtype=torch.float64) * total[:, -1:]
        return torch.searchsorted(total, at, right=True)[:, 0].clamp(max=logits.shape[-1] - 1)

    return sample


SHARE, TEMPERATURE = 0.9, 0.8
SAMPLERS = {
    "top_p_off_by_one": (top_p_off_by_one(SHARE, TEMPERATURE), True),
    "temperature_after_the_cut": (temperature_after_the_cut(SHARE, TEMPERATURE), True),
    "temperature_twice": (top_p(SHARE, TEMPERATURE**2), True),
    "top_p_0.92": (top_p(0.92, TEMPERATURE), True),
    "gumbel": (gumbel(SHARE, TEMPERATURE), False),
    "inverse": (inverse(SHARE, TEMPERATURE), False),
}
"""Samplers in the place of top-p 0.9 at temperature 0.8, and whether that is a drift."""


def sampled(model, sampler=None):
    return Deployment(model, sampler or top_p(SHARE, TEMPERATURE))


# --- honest rewritings: other orders and forms, sums in float32 at least, as kernels have them


def full(x):
    """As a kernel holds it: float32 at least."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def norms(m, scale):
    for norm in each(m, Norm):
        method(norm, "forward", lambda self, x: self.weight * scale(full(x), self.eps).to(x.dtype))


@honest
def norm_by_division(m):
    norms(m, lambda x, eps: x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + eps))


@honest
def norm_by_torch(m):
    norms(m, lambda x, eps: F.rms_norm(x, x.shape[-1:], eps=eps))


@honest
def norm_by_products(m):
    norms(m, lambda x, eps: x * (torch.linalg.vecdot(x, x)[..., None] / x.shape[-1] + eps).pow(-0.5))


@honest
def norm_summed_in_parts(m):
    norms(
        m,
        lambda x, eps: (
            x * torch.rsqrt(sum(p.pow(2).sum(-1, keepdim=True) for p in x.split(7, -1)) / x.shape[-1] + eps)
        ),
    )


@honest
def norm_with_the_weight_before_rounding(m):
    for norm in each(m, Norm):

        def forward(self, x):
            wide = full(x)
            return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps) * full(self.weight)).to(
                x.dtype
            )

        method(norm, "forward", forward)


def linears(m, product):
    for linear in each(m, nn.Linear):

        def forward(self, x):
            y = product(full(x), full(self.weight))
            return (y if self.bias is None else y + full(self.bias)).to(x.dtype)

        method(linear, "forward", forward)


def split_product(parts):
    def product(x, w):
        size = -(-x.shape[-1] // parts)
        return sum(F.linear(a, b) for a, b in zip(x.split(size, -1), w.split(size, -1), strict=True))

    return product


@honest
def products_in_two_parts(m):
    linears(m, split_product(2))


@honest
def products_in_six_parts(m):
    linears(m, split_product(6))


@honest
def products_reversed(m):
    linears(m, lambda x, w: F.linear(x.flip(-1), w.flip(-1)))


@honest
def products_of_the_transposed(m):
    linears(m, lambda x, w: (w @ x.transpose(-1, -2)).transpose(-1, -2))


@honest
def products_in_blocks_of_tokens(m):
    linears(m, lambda x, w: torch.cat([F.linear(part, w) for part in x.split(3, 1)], 1))


@honest
def products_in_blocks_of_outputs(m):
    linears(m, lambda x, w: torch.cat([F.linear(x, part) for part in w.split(5)], -1))


@honest
def products_with_fma(m):
    # A fused multiply-add does not round the product: float64 between, float32 after each term.
    def product(x, w):
        total = x.new_zeros(*x.shape[:-1], len(w))
        for k in range(x.shape[-1]):
            total = (total.double() + x[..., k, None].double() * w[:, k].double()).to(x.dtype)
        return total

    linears(m, product)


@honest
def products_in_float64(m):
    linears(m, lambda x, w: F.linear(x.double(), w.double()).to(x.dtype))


def attentions(m, attend):
    for one in each(m, Attention):
        method(one, "attend", lambda self, q, k, v, mask: attend(self, q, k, v, mask))


@honest
def attention_by_sdpa(m):
    attentions(
        m,
        lambda self, q, k, v, mask: F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=self.scale),
    )


def fused(weights):
    """Attention as fused kernels have it: scores and weights in float32."""

    def attend(self, q, k, v, mask):
        scores = full(q) @ full(k).mT * self.scale
        return (weights(scores.masked_fill(~mask, -1e30)) @ full(v)).to(q.dtype)

    return attend


def by_exp2(scores):
    powers = torch.exp2((scores - scores.amax(-1, keepdim=True)) * math.log2(math.e))
    return powers / powers.sum(-1, keepdim=True)


@honest
def softmax_by_exp2(m):
    attentions(m, fused(by_exp2))


@honest
def softmax_by_sum_and_reciprocal(m):
    attentions(
        m, fused(lambda s: (e := (s - s.amax(-1, keepdim=True)).exp()) * e.sum(-1, keepdim=True).reciprocal())
    )


@honest
def softmax_by_logsumexp(m):
    attentions(m, fused(lambda s: (s - s.logsumexp(-1, keepdim=True)).exp()))


@honest
def attention_in_blocks(m):
    def attend(self, q, k, v, mask):
        most = torch.full((*q.shape[:-1], 1), -1e30)
        total, out = torch.zeros_like(most), torch.zeros(*q.shape[:-1], v.shape[-1])
        most, total, out = (t.to(full(q).dtype) for t in (most, total, out))
        for at in range(0, k.shape[2], 8):
            allowed = mask[..., at : at + 8]
            scores = (full(q) @ full(k[:, :, at : at + 8]).mT * self.scale).masked_fill(~allowed, -1e30)
            higher = torch.maximum(most, scores.amax(-1, keepdim=True))
            weights = (scores - higher).exp().masked_fill(~allowed, 0.0)
            shrink = (most - higher).exp()
            total = total * shrink + weights.sum(-1, keepdim=True)
            out = out * shrink + weights @ full(v[:, :, at : at + 8])
            most = higher
        return (out / total).to(q.dtype)

    attentions(m, attend)


@honest
def scale_on_the_queries(m):
    def attend(self, q, k, v, mask):
        scores = (full(q) * self.scale) @ full(k).mT
        return (torch.softmax(scores.masked_fill(~mask, -1e30), -1) @ full(v)).to(q.dtype)

    attentions(m, attend)


@honest
def query_key_and_value_in_one_product(m):
    for one in each(m, Attention):
        parts = [one.q, one.k, one.v]
        weight, bias = torch.cat([p.weight for p in parts]), torch.cat([p.bias for p in parts])
        for n, part in enumerate(parts):
            sizes = [p.out_features for p in parts]

            def forward(self, x, n=n, w=weight, b=bias, sizes=sizes):
                return F.linear(x, w.to(x.dtype), b.to(x.dtype)).split(sizes, -1)[n]

            method(part, "forward", forward)


@honest
def gelu_by_erf(m):
    for gelu in each(m, Gelu):
        method(
            gelu,
            "forward",
            lambda self, x: (0.5 * full(x) * (1 + torch.erf(full(x) / math.sqrt(2)))).to(x.dtype),
        )


@honest
def gelu_by_erfc(m):
    for gelu in each(m, Gelu):
        method(
            gelu,
            "forward",
            lambda self, x: (0.5 * full(x) * torch.erfc(full(x) * -math.sqrt(0.5))).to(x.dtype),
        )


@honest
def mlp_with_float32_between(m):
    for mlp in each(m, MLP):

        def forward(self, x):
            hidden = F.gelu(F.linear(full(x), full(self.up.weight), full(self.up.bias)))
            return F.linear(hidden, full(self.down.weight), full(self.down.bias)).to(x.dtype)

        method(mlp, "forward", forward)


@honest
def rotary_by_complex_numbers(m):
    def forward(self, x, positions):
        angles = self.angles(positions)[:, None, :, : self.head // 2]
        left, right = (full(part) for part in x.chunk(2, -1))
        turned = torch.complex(left, right) * torch.polar(torch.ones_like(angles), angles).to(
            torch.complex128 if left.dtype is torch.float64 else torch.complex64
        )
        return torch.cat((turned.real, turned.imag), -1).to(x.dtype)

    for rotary in each(m, Rotary):
        method(rotary, "forward", forward)


@honest
def cap_by_exp(m):
    for cap in each(m, Cap):
        method(
            cap,
            "forward",
            lambda self, x: (self.most * (1 - 2 / (1 + (2 * full(x) / self.most).exp()))).to(x.dtype),
        )


@honest
def cap_by_sigmoid(m):
    for cap in each(m, Cap):
        method(
            cap,
            "forward",
            lambda self, x: (self.most * (2 * torch.sigmoid(2 * full(x) / self.most) - 1)).to(x.dtype),
        )


def mixture(seed):
    """Return a change that takes a random choice of honest rewritings, one after another."""

    def change(m):
        random = torch.Generator().manual_seed(seed)
        for name in sorted(HONEST):
            if float(torch.rand(1, generator=random)) < 0.3:
                HONEST[name](m)

    return change
