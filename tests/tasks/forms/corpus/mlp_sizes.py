import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, input_size, hidden_layer_sizes, output_size):
        super().__init__()
        layers = []
        for size in hidden_layer_sizes:
            layers += [nn.Linear(input_size, size), nn.ReLU()]
            input_size = size
        self.network = nn.Sequential(*layers, nn.Linear(input_size, output_size))

    def forward(self, x):
        return self.network(x)


batch_size = 128
input_size = 4096
layer_sizes = [4096, 4096]
output_size = 2048


def get_inputs():
    return [torch.rand(batch_size, input_size)]


def get_init_inputs():
    return [input_size, layer_sizes, output_size]
