"""Training and validation loops: batches uploaded one by one, item() in each step."""

import numpy as np
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4)).to(device)  # upload Module.to, 4, 9_488
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loss_of = nn.CrossEntropyLoss()
data = torch.from_numpy(np.random.default_rng(0).standard_normal((512, 32)).astype(np.float32))
labels = torch.randint(0, 4, (512,))
for epoch in range(2):
    model.train()
    total = 0.0
    for i in range(0, 384, 64):
        x = data[i : i + 64].to(device)  # upload Tensor.to, 12, 12 * 64 * 32 * 4
        y = labels[i : i + 64].cuda()  # upload Tensor.cuda, 12, 12 * 64 * 8
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()  # wait Tensor.item, 12, 12 * 4
    model.eval()
    right = 0
    with torch.no_grad():
        for i in range(384, 512, 64):
            scores = model(data[i : i + 64].to(device))  # upload Tensor.to, 4, 4 * 64 * 32 * 4
            guess = scores.argmax(dim=1).cpu().numpy()  # download Tensor.cpu, 4, 4 * 64 * 8
            right += int((guess == labels[i : i + 64].numpy()).sum())
    print(f"epoch {epoch}: loss {total:.3f}, right {right}, on {next(model.parameters()).device}")
