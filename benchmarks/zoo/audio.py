"""Encoders of sound."""

import torch
import transformers
from _made import of


def whisper_encoder():
    sizes = {"max_source_positions": 64, "num_mel_bins": 80}
    model = of(transformers, "WhisperConfig", "WhisperModel", **sizes).get_encoder()
    return model.eval(), {"input_features": torch.randn(1, 80, 128)}


def wav2vec2():
    sizes = {"conv_dim": [64] * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
    return of(transformers, "Wav2Vec2Config", "Wav2Vec2Model", **sizes), {
        "input_values": torch.randn(1, 8000)
    }


def hubert():
    sizes = {"conv_dim": [64] * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
    return of(transformers, "HubertConfig", "HubertModel", **sizes), {"input_values": torch.randn(1, 8000)}


def spectrogram_transformer():
    return of(transformers, "ASTConfig", "ASTModel", max_length=128, num_mel_bins=64), {
        "input_values": torch.randn(1, 128, 64)
    }


def encodec():
    model = of(transformers, "EncodecConfig", "EncodecModel", num_filters=8, hidden_size=64).encoder
    return model.eval(), (torch.randn(1, 1, 4000),)
