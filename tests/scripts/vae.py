"""A small autoencoder fed by a loader with a pinning thread, in half precision."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(64, 16)
        self.mean = nn.Linear(16, 4)
        self.spread = nn.Linear(16, 4)
        self.decode = nn.Linear(4, 64)

    def forward(self, x):
        hidden = torch.relu(self.encode(x))
        mean, spread = self.mean(hidden), self.spread(hidden)
        noise = torch.randn_like(spread)
        return self.decode(mean + noise * torch.exp(0.5 * spread)), mean, spread


def main() -> None:
    torch.manual_seed(0)
    device = "cuda"
    data = TensorDataset(torch.rand(256, 64), torch.arange(256))
    loader = DataLoader(data, batch_size=64, num_workers=1, pin_memory=True)
    model = Model().cuda()  # upload Module.cuda, 8, 5_984
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device)
    for epoch in range(2):
        total = 0.0
        for x, _ in loader:
            x = x.to(device, non_blocking=True)  # upload Tensor.to, 8, 8 * 64 * 64 * 4, pinned
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device):
                out, mean, spread = model(x)
                loss = ((out - x) ** 2).mean() - 0.5 * (1 + spread - mean**2 - spread.exp()).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)  # wait Tensor.item, 8, 8 * 4
            scaler.update()
            total += float(loss)  # wait Tensor.__float__, 8, 8 * 4
        print(f"epoch {epoch}: {total:.2f}")
    with torch.no_grad():
        sample = model.decode(torch.randn(4, 4, device=device))
    print(sample.cpu().numpy().shape, str(sample.device))  # download Tensor.cpu, 1, 4 * 64 * 4


if __name__ == "__main__":
    main()
