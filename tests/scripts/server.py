"""Inference for requests of a queue, in a thread of its own: a list in, a list out."""

import queue
import threading

import numpy as np
import torch

torch.manual_seed(0)
device = torch.device("cuda:0")
model = torch.nn.Linear(32, 8).to(device).eval()  # upload Module.to, 2, 1_056
scale = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], device=device)  # upload torch.tensor, 1, 8 * 4
requests: queue.Queue = queue.Queue()
answers: list = []


def serve() -> None:
    while (request := requests.get()) is not None:
        with torch.inference_mode():
            x = torch.as_tensor(request, device=device)  # upload torch.as_tensor, 5, 5 * 4 * 32 * 4
            scores = model(x) * scale
            best = scores.argmax(dim=1)
            confident = scores[scores > 1]  # wait Tensor.__getitem__, 5
            answers.append((best.tolist(), int(best[0]), confident.numel()))
            # download Tensor.tolist, 5, 5 * 4 * 8; wait Tensor.__int__, 5, 5 * 8
            if torch.isnan(scores).any():  # wait Tensor.__bool__, 5, 5
                return


thread = threading.Thread(target=serve)
thread.start()
rng = np.random.default_rng(5)
for _ in range(5):
    requests.put(rng.standard_normal((4, 32)).astype(np.float32))
requests.put(None)
thread.join()
print(len(answers), len(answers[0][0]))
