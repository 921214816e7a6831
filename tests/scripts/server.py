"""Inference for requests of a queue, in a thread of its own: a list in, a list out."""

import queue
import threading

import numpy as np
import torch

torch.manual_seed(0)
device = torch.device("cuda:0")
model = torch.nn.Linear(32, 8).to(device).eval()
scale = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], device=device)
requests: queue.Queue = queue.Queue()
answers: list = []


def serve() -> None:
    while (request := requests.get()) is not None:
        with torch.inference_mode():
            x = torch.as_tensor(request, device=device)
            scores = model(x) * scale
            best = scores.argmax(dim=1)
            confident = scores[scores > 1]
            answers.append((best.tolist(), int(best[0]), confident.numel()))
            if torch.isnan(scores).any():
                return


thread = threading.Thread(target=serve)
thread.start()
rng = np.random.default_rng(5)
for _ in range(5):
    requests.put(rng.standard_normal((4, 32)).astype(np.float32))
requests.put(None)
thread.join()
print(len(answers), len(answers[0][0]))
