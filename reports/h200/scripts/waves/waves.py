import cupy as cp
import numpy as np


def step(u, v):
    laplace = -4 * u
    laplace[1:] += u[:-1]
    laplace[:-1] += u[1:]
    laplace[:, 1:] += u[:, :-1]
    laplace[:, :-1] += u[:, 1:]
    return u + v + 0.2 * laplace, v + 0.2 * laplace


def simulate(n=1536, steps=160):
    u = cp.zeros((n, n), dtype=cp.float32)
    u[n // 2 - 8 : n // 2 + 8, n // 3] = 1
    v = cp.zeros_like(u)
    energies = np.zeros(steps)
    for i in range(steps):
        u, v = step(u, v)
        field = u.get()
        energies[i] = np.abs(field[:: 32]).sum()
    return energies


if __name__ == "__main__":
    e = simulate()
    print("%.6f %.6f" % (e[10], e[-1]))
