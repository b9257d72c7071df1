"""Denoisers and decoders of images and video."""

import diffusers
import torch

_BLOCKS = {"block_out_channels": (32, 64), "layers_per_block": 1, "norm_num_groups": 8}


def _made(kind, **sizes):
    torch.manual_seed(0)
    return getattr(diffusers, kind)(**sizes).eval()


def unet():
    blocks = {
        "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
        "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
    }
    model = _made("UNet2DModel", sample_size=32, in_channels=3, out_channels=3, **_BLOCKS, **blocks)
    return model, (torch.randn(1, 3, 32, 32), torch.tensor(10))


def unet_text():
    blocks = {
        "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"), "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
        "cross_attention_dim": 64, "attention_head_dim": 8,
    }  # fmt: skip
    model = _made("UNet2DConditionModel", sample_size=32, in_channels=4, out_channels=4, **_BLOCKS, **blocks)
    return model, (torch.randn(1, 4, 32, 32), torch.tensor(10), torch.randn(1, 16, 64))


def vae_decoder():
    model = _made("AutoencoderKL", in_channels=3, out_channels=3, latent_channels=4, up_block_types=("UpDecoderBlock2D",) * 2,
                  down_block_types=("DownEncoderBlock2D",) * 2, **_BLOCKS)  # fmt: skip
    return torch.nn.Sequential(model.post_quant_conv, model.decoder).eval(), (torch.randn(1, 4, 16, 16),)


def dit():
    model = _made("DiTTransformer2DModel", num_attention_heads=4, attention_head_dim=32, in_channels=4, out_channels=8,
                  num_layers=4, sample_size=16, patch_size=2, num_embeds_ada_norm=100)  # fmt: skip
    return model, {
        "hidden_states": torch.randn(1, 4, 16, 16),
        "timestep": torch.tensor([10]),
        "class_labels": torch.tensor([3]),
    }


def sd3():
    model = _made("SD3Transformer2DModel", sample_size=16, patch_size=2, in_channels=4, num_layers=2, attention_head_dim=32,
                  num_attention_heads=4, joint_attention_dim=64, caption_projection_dim=128, pooled_projection_dim=64,
                  out_channels=4, pos_embed_max_size=16)  # fmt: skip
    return model, {
        "hidden_states": torch.randn(1, 4, 16, 16), "encoder_hidden_states": torch.randn(1, 8, 64),
        "pooled_projections": torch.randn(1, 64), "timestep": torch.tensor([10.0]),
    }  # fmt: skip


def video_vae_block():
    """Convolutions over time, height and width with norms between, as decoders of video have."""
    torch.manual_seed(0)
    parts = []
    for _ in range(3):
        parts += [torch.nn.GroupNorm(8, 32), torch.nn.SiLU(), torch.nn.Conv3d(32, 32, 3, padding=1)]
    return torch.nn.Sequential(*parts).eval(), (torch.randn(1, 32, 8, 16, 16),)
