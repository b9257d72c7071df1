"""Encoders of images."""

import torch
import transformers
from _made import image, of


def vit():
    return of(transformers, "ViTConfig", "ViTModel", image_size=64, patch_size=8), image()


def deit():
    return of(transformers, "DeiTConfig", "DeiTModel", image_size=64, patch_size=8), image()


def dinov2():
    return of(transformers, "Dinov2Config", "Dinov2Model", image_size=64, patch_size=8), image()


def beit():
    return of(transformers, "BeitConfig", "BeitModel", image_size=64, patch_size=8), image()


def clip_vision():
    return of(transformers, "CLIPVisionConfig", "CLIPVisionModel", image_size=64, patch_size=8), image()


def swin():
    sizes = {
        "image_size": 64,
        "embed_dim": 48,
        "depths": [2, 2],
        "num_heads": [3, 6],
        "window_size": 4,
        "patch_size": 4,
    }
    return of(transformers, "SwinConfig", "SwinModel", **sizes), image()


def convnext():
    return of(
        transformers, "ConvNextConfig", "ConvNextModel", hidden_sizes=[48, 96, 192, 384], depths=[1, 1, 2, 1]
    ), image()


def resnet():
    sizes = {
        "embedding_size": 32,
        "hidden_sizes": [32, 64, 128, 256],
        "depths": [2, 2, 2, 2],
        "layer_type": "basic",
    }
    return of(transformers, "ResNetConfig", "ResNetModel", **sizes), image()


def regnet():
    sizes = {
        "embedding_size": 32,
        "hidden_sizes": [32, 64, 128, 256],
        "depths": [1, 1, 2, 1],
        "groups_width": 16,
    }
    return of(transformers, "RegNetConfig", "RegNetModel", **sizes), image()


def mobilenet():
    """Its weights are drawn wider than the configuration does, with which fifty layers lose the image."""
    model = of(transformers, "MobileNetV2Config", "MobileNetV2Model", depth_multiplier=0.5, image_size=64)
    for layer in model.modules():
        if isinstance(layer, torch.nn.Conv2d):
            torch.nn.init.kaiming_normal_(layer.weight)
    return model, image()


def segformer():
    sizes = {"hidden_sizes": [16, 32, 64, 128], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 4, 8]}
    return of(transformers, "SegformerConfig", "SegformerModel", **sizes), image()


def poolformer():
    return of(
        transformers,
        "PoolFormerConfig",
        "PoolFormerModel",
        hidden_sizes=[32, 64, 128, 256],
        depths=[1, 1, 2, 1],
    ), image()
