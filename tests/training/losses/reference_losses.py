"""The losses once more, in numpy and float64, entry by entry as their sources write them."""

import numpy as np

# L: logits (image, text); same[i, j]: text j is true of image i, for it is a caption of it.


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def nll(logits, true):
    return -np.log(softmax(np.asarray(logits))[true])


def softplus(x):
    return np.logaddexp(0.0, x)


def candidates(n, i, same):
    return [j for j in range(n) if j == i or not same[i, j]]


def itc(L, same):
    n, halves = len(L), [0.0, 0.0]
    for i in range(n):
        at = candidates(n, i, same)
        halves[0] += nll(L[i, at], at.index(i)) / n / 2
        at = candidates(n, i, same.T)
        halves[1] += nll(L[at, i], at.index(i)) / n / 2
    return {"image_to_text": halves[0], "text_to_image": halves[1], "total": sum(halves)}


def siglip(L, same):
    n = len(L)
    matched = sum(softplus(-L[i, i]) for i in range(n)) / n
    unmatched = sum(softplus(L[i, j]) for i in range(n) for j in range(n) if not same[i, j]) / n
    return {"matched": matched, "unmatched": unmatched, "total": matched + unmatched}


def negclip(L, N, there, same):
    """N: logits of images with all false captions, (n, m), and which of these there are, of all or of each image."""
    n, out = len(L), itc(L, same)
    half, there = 0.0, np.broadcast_to(there, N.shape)
    for i in range(n):
        at = candidates(n, i, same)
        half += nll([*L[i, at], *N[i, there[i]]], at.index(i)) / n / 2
    return {**out, "image_to_text": half, "total": half + out["text_to_image"]}


def tripletclip(L, L2, LN, L2N, same, same2, cross, cross2):
    """L: pairs by pairs, L2: mates by mates, LN, L2N: one's images by the other's texts; cross, cross2: of these."""
    image, text, n = 0.0, 0.0, len(L)
    for logits, false, own, other in ((L, LN, same, cross), (L2, L2N, same2, cross2)):
        for i in range(n):
            at = candidates(n, i, own)
            image += nll([*logits[i, at], *false[i, ~other[i]]], at.index(i)) / n / 2
            at = candidates(n, i, own.T)
            text += nll(logits[at, i], at.index(i)) / n / 2
    return {"image_to_text": image, "text_to_image": text, "total": image + text}


def cs_clip(L, N, there, U, F, same, weight, foils, units, false):
    """U: for each place logits of images with all units, F: with all foils; `foils` own or all.

    units, false: for each place, which units are true of each image, and which foils are not.
    """
    captions, each, n = negclip(L, N, there, same)["total"], [], len(L)
    for u, f, same_units, foiled in zip(U, F, units, false, strict=True):
        image = text = 0.0
        for i in range(n):
            at = candidates(n, i, same_units)
            shown = foiled[i] & (np.arange(n) == i if foils == "own" else True)
            image += nll([*u[i, at], *f[i, shown]], at.index(i)) / n
            at = candidates(n, i, same_units.T)
            text += nll(u[at, i], at.index(i)) / n
        each.append((image + text) / 2)
    units = mean(each)
    return {"negclip": captions, "units": weight * units, "total": captions + weight * units}


def choices(own, false, there):
    """For each image with a false caption, its logits and the probabilities of its captions, the true one first."""
    logits = [np.array([o, *row[h]]) for o, row, h in zip(own, false, there, strict=True) if h.any()]
    return [(one, softmax(one)) for one in logits]


def mean(values):
    return float(np.mean(values)) if len(values) else 0.0


def negbench(L, false, there, same, contrast, choice):
    asked = mean([-np.log(p[0]) for _, p in choices(np.diag(L), false, there)])
    parts = {"itc": contrast * itc(L, same)["total"], "choice": choice * asked}
    return {**parts, "total": sum(parts.values())}


def clic(L, false, there, same, distances, contrast, choice, paraphrase):
    """L: logits of images with each of their true captions, (p, n, n), and which of these are true of each image."""
    captions = [negbench(one, false, there, its, contrast, choice) for one, its in zip(L, same, strict=True)]
    parts = {name: mean([one[name] for one in captions]) for name in ("itc", "choice")}
    parts["paraphrase"] = paraphrase * mean(distances**2)
    return {**parts, "total": sum(parts.values())}


def focal(own, false, there, gamma, smoothing):
    costs = []
    for _, p in choices(own, false, there):
        label = np.full(len(p), smoothing / len(p))
        label[0] += 1 - smoothing
        costs.append(-(label * (1 - p) ** gamma * np.log(p)).sum())
    return mean(costs)


def fsc_global(L, false, there, same, *, weight, gamma, smoothing):
    parts = {"itc": itc(L, same)["total"], "choice": weight * focal(np.diag(L), false, there, gamma, smoothing)}
    return {**parts, "total": sum(parts.values())}


def fsc_clip(L, false, there, same, scale, patches, words, real, *, local, weight, gamma, smoothing):
    """Patches (n, p, d), words (n, 1 + f, w, d) of each caption, and which of them there are."""
    n, captions = words.shape[:2]
    fits = np.zeros((n, captions))
    for i, c in np.ndindex(n, captions):
        sums = 0.0
        for word in words[i, c][real[i, c]]:
            products = patches[i] @ word
            shares = (products - products.min()) / (products.max() - products.min())
            mean_patch = shares @ patches[i] / shares.sum()
            sums += np.exp(scale * mean_patch @ word / np.linalg.norm(mean_patch))
        fits[i, c] = np.log(sums)
    parts = fsc_global(L, false, there, same, weight=weight, gamma=gamma, smoothing=smoothing)
    total, own = parts.pop("total"), local * focal(fits[:, 0], fits[:, 1:], there, gamma, smoothing)
    return {**parts, "local": own, "total": total + own}


def ce_clip(L, N, T, false, there, columns, same, *, intra, rank, bound, threshold):
    """T: logits of texts with all false captions, (n, m); columns: which of these are false of each image."""
    n = len(L)
    between = mean([nll([L[i, i], *T[i, columns[i]]], 0) for i in range(n)])
    ahead = [logits[0] - one for logits, _ in choices(np.diag(L), false, there) for one in logits[1:]]
    if threshold is None:
        threshold = min(max(mean(ahead), 0.0), bound)
    ranked = mean([max(threshold - one, 0.0) for one in ahead])
    parts = {"negclip": negclip(L, N, columns, same)["total"], "intra": intra * between, "rank": rank * ranked}
    return {**parts, "total": sum(parts.values())}


def hardneg(L, same, k, weight):
    n, hard = len(L), 0.0
    for i in range(n):
        for row, true in ((L[i], same[i]), (L[:, i], same[:, i])):
            others = [j for j in range(n) if not true[j]]
            hardest = sorted((row[j] for j in others), reverse=True)[:k]
            hard += nll([row[i], *hardest], 0) / n / 2
    total = itc(L, same)["total"]
    return {"itc": total, "hard": weight * hard, "total": total + weight * hard}


def cyclip(images, texts, scale, same, cross, within):
    n = len(images)
    a = b = 0.0
    for i in range(n):
        for j in range(n):
            if not (same | same.T)[i, j]:
                a += (images[i] @ texts[j] - images[j] @ texts[i]) ** 2 / n
                b += (images[i] @ images[j] - texts[i] @ texts[j]) ** 2 / n
    total = itc(scale * images @ texts.T, same)["total"]
    return {"itc": total, "cross": cross * a, "within": within * b, "total": total + cross * a + within * b}


def hinge(x, alpha):
    return max(x**2 - alpha, 0.0)


def close_sets(C, same, k):
    n, top = len(C), []
    for i in range(n):
        others = sorted((j for j in range(n) if not (same | same.T)[i, j]), key=lambda j, i=i: -max(C[i, j], C[j, i]))
        top.append(set(others[:k]))
    return top


VARIANTS = {
    "eqsim": ("distant", "close"), "v1-all+v2-close": ("all", "close"), "v1-all": ("all", ""), "v2-all": ("", "all"),
    "v2-close": ("", "close"),
}  # fmt: skip


def four_of(C, scale, same, normalise, i, j):
    """s11, s12, s21, s22 for a change of text, and for a change of image."""
    n, entries = len(C), [(i, i), (i, j), (j, i), (j, j)]
    if normalise == "none":
        return [[C[a, b] for a, b in entries]] * 2
    if normalise == "block":
        return [softmax(np.array([scale * C[a, b] for a, b in entries]))] * 2
    texts, images = [], []
    for a, b in entries:
        at = candidates(n, a, same)
        texts.append(softmax(scale * C[a, at])[at.index(b)])
        at = candidates(n, b, same.T)
        images.append(softmax(scale * C[at, b])[at.index(a)])
    return [texts, images]


def eqsim(C, scale, same, *, alpha, beta, k, variant, normalise):
    n, top = len(C), close_sets(C, same, k)
    sums = {"v1": [], "v2": []}
    for i in range(n):
        for j in range(n):
            if (same | same.T)[i, j]:
                continue
            kind = "close" if j in top[i] or i in top[j] else "distant"
            texts, images = four_of(C, scale, same, normalise, i, j)
            if VARIANTS[variant][0] in {"all", kind}:
                sums["v1"].append((hinge(texts[1] - texts[2], alpha) + hinge(images[1] - images[2], alpha)) / 2)
            if VARIANTS[variant][1] in {"all", kind}:
                t11, t12, t21, t22 = texts
                i11, i12, i21, i22 = images
                sums["v2"].append(hinge((t11 - t12) - (t22 - t21), alpha) + hinge((i11 - i21) - (i22 - i12), alpha))
    v1, v2 = (beta * np.mean(sums[name]) if sums[name] else 0.0 for name in ("v1", "v2"))
    total = itc(scale * C, same)["total"]
    return {"itc": total, "v1": v1, "v2": v2, "total": total + v1 + v2}


def eqsim_released(L, drawn, weight, margin):
    """The released `hard_easy_itc`, line by line: `drawn[b]` holds both lists of sampled negatives."""
    n, P = len(L), np.stack([softmax(row) for row in L])
    mask = np.ones((n, n))
    c0_i0, c0_ii, ci_i0, ci_ii = [], [], [], []
    for b in range(n):
        for i in drawn[b]:
            c0_i0.append(P[b, b])
            c0_ii.append(P[i, b])
            ci_i0.append(P[b, i])
            ci_ii.append(P[i, i])
            mask[b, i] = mask[i, b] = 0.0
    c0_i0, c0_ii, ci_i0, ci_ii = map(np.array, (c0_i0, c0_ii, ci_i0, ci_ii))
    text_side = weight * max((((c0_i0 - ci_i0) - (ci_ii - c0_ii)) ** 2).mean() - margin, 0.0)
    image_side = weight * max((((c0_i0 - c0_ii) - (ci_ii - ci_i0)) ** 2).mean() - margin, 0.0)
    v1 = weight * max(((P * mask - P.T * mask) ** 2).mean() - 0.0, 0.0)
    total = itc(L, np.eye(n, dtype=bool))["total"]
    return {"itc": total, "v1": v1, "v2": text_side + image_side, "total": total + v1 + text_side + image_side}


def itm(true, texts, images, has_text, has_image):
    parts = {
        "true": mean(softplus(-true)) / 3,
        "wrong_text": mean(softplus(texts[has_text])) / 3,
        "wrong_image": mean(softplus(images[has_image])) / 3,
    }
    return {**parts, "total": sum(parts.values())}


def ranking(true, texts, has_text):
    rank = float(np.mean([nll([t, *row[h]], 0) for t, row, h in zip(true, texts, has_text, strict=True)]))
    return {"rank": rank, "total": rank}


def eqsim_matching(true, texts, images, counterparts, counted, close, *, alpha, beta, variant):
    """The regularisation alone, on sigmoids."""

    def s(x):
        return 1.0 / (1.0 + np.exp(-x))

    sums = {"v1": [], "v2": []}
    for i in range(len(true)):
        for j in range(texts.shape[1]):
            if not counted[i, j]:
                continue
            kind = "close" if close[i, j] else "distant"
            s11, s12, s21, s22 = s(true[i]), s(texts[i, j]), s(images[i, j]), s(counterparts[i, j])
            if VARIANTS[variant][0] in {"all", kind}:
                sums["v1"].append(hinge(s12 - s21, alpha))
            if VARIANTS[variant][1] in {"all", kind}:
                sums["v2"].append(hinge((s11 - s12) - (s22 - s21), alpha) + hinge((s11 - s21) - (s22 - s12), alpha))
    return {name: beta * np.mean(values) if values else 0.0 for name, values in sums.items()}
