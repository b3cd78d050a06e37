"""Whether g-nets as priors would pay on real tensors: what a fit by least squares leaves, and what that is worth.

A g-net that says what to expect of a weight helps by what it explains of it: of a tensor of which it leaves the part
1 - R of the squares, each number takes log2(1 / (1 - R)) / 2 bits less at most. What g-nets can say of a matrix
[rows, columns] is fitted here in closed form, which no training of theirs beats by much:

  fourier K    K x K cosines of the places of row and column (Fourier codes)
  pixel K      the same with columns, or kernels, as places of a picture: K x K cosines for each of K rows' cosines
  latent K     K free numbers for each row and each column (latent codes): the best matrix of rank K

Every number of the fit is taken to cost 8 bits. Where the bound promises at least 1 % of the tensor's bytes, the
tensor and what the fit leaves of it are compressed by the program at the same squared error (a hundredth of the
tensor's squares, about four bits a number), and the bytes are compared, those of the fit included.
"""

import argparse
import math
import os
import subprocess
import tempfile

import torch

from files import read_model, write_safetensors
from models import MODELS

FEWEST, COST_BITS, PROMISES, ERROR = 1024, 8, 0.01, 0.01
MARK = "| {:24} | {:44} | {:>11} | {:11} | {:>6} | {:>9} | {:>9} | {:>6} |"


def cosines(n, k):
    """The first k orthonormal cosines of n places: [n, k]."""
    places = (torch.arange(n, dtype=torch.float64) + 0.5) * math.pi / n
    basis = torch.cos(places[:, None] * torch.arange(k)) * math.sqrt(2 / n)
    basis[:, 0] /= math.sqrt(2)
    return basis


def picture(n):
    side = math.isqrt(n)
    return side if side * side == n and side >= 4 else 0


def fits(w):
    """(name, fit, numbers that it takes) of a matrix in float64."""
    m, n = w.shape
    for k in (2, 4, 8, 16):
        if k <= min(m, n):
            a, b = cosines(m, k), cosines(n, k)
            yield f"fourier {k}", a @ (a.T @ w @ b) @ b.T, k * k
    side = picture(n)
    for k in (2, 4):
        if side and k <= m:
            a, b = cosines(m, k), torch.kron(cosines(side, k), cosines(side, k))
            yield f"pixel {k}", a @ (a.T @ w @ b) @ b.T, k ** 3
    small = w.T @ w if n <= m else w @ w.T
    if len(small) <= 2048:
        directions = torch.linalg.eigh(small).eigenvectors.flip(1)
        for k in (1, 2, 4):
            v = directions[:, :k]
            yield f"latent {k}", (w @ v @ v.T if n <= m else v @ v.T @ w), k * (m + n)


def packed(program, folder, tensor, error):
    """Bytes of a file with this one tensor, less those of one with nearly nothing."""
    plain, small = (os.path.join(folder, name) for name in ("t.safetensors", "t.gbz"))
    write_safetensors(plain, {"t.weight": tensor.float()})
    subprocess.run([program, "compress", plain, "--max-error", repr(error), "-o", small, "--force", "--quiet"], check=True,
                   stdout=subprocess.DEVNULL)
    return os.path.getsize(small)


def measured(program, folder, w, fit, numbers):
    """Bytes of the tensor, and of what the fit leaves with the fit, at the same squared error."""
    left = w - fit
    share = float(left.square().sum() / w.square().sum())
    if share <= 2 * ERROR:
        return packed(program, folder, w, ERROR), numbers * COST_BITS / 8
    return (packed(program, folder, w, ERROR),
            packed(program, folder, left, ERROR / share) + numbers * COST_BITS / 8)


def main():
    known = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known.add_argument("--program", required=True)
    known.add_argument("--site", required=True)
    known.add_argument("--only", default="", help="only models with this in their name")
    known.add_argument("files", nargs="*", help="further models")
    told = known.parse_args()
    torch.set_num_threads(1)
    models = [(m.name, os.path.join(told.site, m.file), m.parts) for m in MODELS if told.only.lower() in m.name.lower()]
    models += [(os.path.basename(file), file, ()) for file in told.files]
    print(MARK.format("model", "tensor", "numbers", "fit", "R", "bytes", "with it", "gain"))
    print("|---|---|--:|---|--:|--:|--:|--:|", flush=True)
    seen = promising = paying = 0
    saved = whole = 0.0
    with tempfile.TemporaryDirectory(prefix="gbc-priors-") as folder:
        for model, path, parts in models:
            for name, value in read_model(path, parts).items():
                if not value.is_floating_point() or value.dim() < 2 or value.numel() < FEWEST:
                    continue
                w = value.double().reshape(value.size(0), -1)
                squares = float(w.square().sum())
                if w.size(1) < 2 or not 0 < squares < math.inf:
                    continue
                seen += 1
                best = None
                for kind, fit, numbers in fits(w):
                    part = min(1 - 1e-9, max(0.0, 1 - float((w - fit).square().sum()) / squares))
                    bits = w.numel() * -math.log2(1 - part) / 2 - numbers * COST_BITS
                    if best is None or bits > best[0]:
                        best = bits, kind, fit, numbers, part
                bits, kind, fit, numbers, part = best
                if bits < PROMISES * 4 * w.numel():
                    continue
                promising += 1
                without, with_it = measured(told.program, folder, w, fit, numbers)
                paying += with_it < without
                saved += max(0.0, without - with_it)
                whole += without
                print(MARK.format(model, f"`{name}`", f"{w.numel():,}", kind, f"{part:.3f}", f"{without:,}", f"{with_it:,.0f}",
                                  f"{100 * (1 - with_it / without):.1f} %"), flush=True)
    print(f"\n{seen} tensors, {promising} where the bound promises {100 * PROMISES:g} %, {paying} where it pays; {saved:,.0f} of "
          f"{whole:,.0f} bytes of those", flush=True)


if __name__ == "__main__":
    main()
