"""Writes what PyTorch makes of the trainer's model, for trainer_golden_test; README.md says how to run it and what the files hold.

The model is written out here once more, from the description in trainer/model.h and not from its code: a mistake that both sides shared
would go unseen. Everything is computed in float64, so that what the test finds is the trainer's own error.
"""
import json
import pathlib

import torch
import torch.nn.functional as F  # noqa: N812

FOLDER = pathlib.Path(__file__).resolve().parent
# "wide" has tokens that no byte can hold.
CASES = {"bytes": {"vocabulary": 256, "seq": 16, "width": 16, "layers": 2, "heads": 2, "batch": 2},
         "wide": {"vocabulary": 300, "seq": 24, "width": 16, "layers": 1, "heads": 4, "batch": 4}}
CLIPS = {"bytes": 2.5, "wide": 1.05}  # some of the steps have a larger norm, and some do not
RATES = [5e-4, 1e-3, 1.5e-3, 2e-3, 2e-3, 1.9e-3, 1.6e-3, 1.2e-3, 8e-4, 4e-4]
ADAMW = {"beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8, "weight_decay": 0.1}
NORM_EPSILON = 1e-5
TOKENS = 1000  # the first key of tokens; params have those from 0 on
_U64 = (1 << 64) - 1


def mix(x):
    """The finaliser of SplitMix64."""
    x = (x + 0x9E3779B97F4A7C15) & _U64
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & _U64
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & _U64
    return x ^ x >> 31


def bits(key, index):
    """64 random bits; C++ has the same from the same numbers."""
    return mix((mix(key) + index) & _U64)


def initial(key, shape, mean):
    """mean + k / 2^25 with k in [-2^23, 2^23), rounded to float32: exact on both sides."""
    count = torch.Size(shape).numel()
    values = [mean + ((bits(key, i) >> 40) - (1 << 23)) * 2.0**-25 for i in range(count)]
    return torch.tensor(values, dtype=torch.float64).float().reshape(shape)


def shapes(case):
    """(name, shape, mean) of every param, in the trainer's order."""
    width = case["width"]
    found = [("wte", (case["vocabulary"], width), 0), ("wpe", (case["seq"], width), 0)]
    for layer in range(case["layers"]):
        found += [(f"block.{layer}.{name}", shape, mean) for name, shape, mean in (
            ("ln1.weight", (width,), 1), ("ln1.bias", (width,), 0),
            ("attn.qkv.weight", (3 * width, width), 0), ("attn.qkv.bias", (3 * width,), 0),
            ("attn.proj.weight", (width, width), 0), ("attn.proj.bias", (width,), 0),
            ("ln2.weight", (width,), 1), ("ln2.bias", (width,), 0),
            ("mlp.up.weight", (4 * width, width), 0), ("mlp.up.bias", (4 * width,), 0),
            ("mlp.down.weight", (4 * width, width), 0), ("mlp.down.bias", (width,), 0))]
    return found + [("lnf.weight", (width,), 1), ("lnf.bias", (width,), 0)]


def loss_of(params, case, inputs, targets):
    """The mean over all tokens, of a GPT-2: pre-norm blocks, tanh GELU, the head tied to the token table."""
    batch, seq = inputs.shape
    width, heads = case["width"], case["heads"]

    def norm(x, name):
        return F.layer_norm(x, (width,), params[name + ".weight"], params[name + ".bias"], NORM_EPSILON)

    x = params["wte"][inputs] + params["wpe"][:seq]
    for layer in range(case["layers"]):
        at = f"block.{layer}."
        # Rows of qkv are [heads, 3, head_dim]; those of the MLP's weights are hidden units.
        qkv = F.linear(norm(x, at + "ln1"), params[at + "attn.qkv.weight"], params[at + "attn.qkv.bias"])
        q, k, v = qkv.view(batch, seq, heads, 3, width // heads).permute(3, 0, 2, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, seq, width)
        x = x + mixed @ params[at + "attn.proj.weight"] + params[at + "attn.proj.bias"]
        hidden = F.linear(norm(x, at + "ln2"), params[at + "mlp.up.weight"], params[at + "mlp.up.bias"])
        x = x + F.gelu(hidden, approximate="tanh") @ params[at + "mlp.down.weight"] + params[at + "mlp.down.bias"]
    logits = norm(x, "lnf") @ params["wte"].T
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def train(case, clip, dtype):
    """(losses, norms before clipping, gradients of the first step, params after the last one)"""
    params = {name: initial(key, shape, mean).to(dtype).requires_grad_() for key, (name, shape, mean) in enumerate(shapes(case))}
    groups = [{"params": [p for p in params.values() if p.dim() == 2], "weight_decay": ADAMW["weight_decay"]},
              {"params": [p for p in params.values() if p.dim() == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(ADAMW["beta1"], ADAMW["beta2"]), eps=ADAMW["epsilon"])
    length = case["seq"] + 1
    losses, norms, grads = [], [], None
    for step, rate in enumerate(RATES):
        windows = torch.tensor([bits(TOKENS + step, i) % case["vocabulary"] for i in range(case["batch"] * length)]).view(-1, length)
        optimizer.zero_grad()
        loss = loss_of(params, case, windows[:, :-1], windows[:, 1:])
        loss.backward()
        grads = grads or {name: p.grad.clone() for name, p in params.items()}
        for group in optimizer.param_groups:
            group["lr"] = rate
        norms.append(torch.nn.utils.clip_grad_norm_(params.values(), clip).item())
        optimizer.step()
        losses.append(loss.item())
    return losses, norms, grads, {name: p.detach() for name, p in params.items()}


def main():
    torch.set_num_threads(1)
    for name, case in CASES.items():
        clip = CLIPS[name]
        losses, norms, grads, params = train(case, clip, torch.float64)
        assert min(norms) < clip < max(norms), norms
        tensors, blob = [], b""
        for param, shape, mean in shapes(case):
            tensors.append({"name": param, "shape": shape, "mean": mean})
            blob += grads[param].float().numpy().astype("<f4").tobytes()
        for param, _, _ in shapes(case):
            blob += params[param].float().numpy().astype("<f4").tobytes()
        about = {"torch": torch.__version__, "model": case, "rates": RATES, "clip": clip, "adamw": ADAMW,
                 "losses": losses, "norms": norms, "params": tensors}
        text = ",\n ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in about.items())
        (FOLDER / f"{name}.json").write_text(f"{{{text}}}\n")
        (FOLDER / f"{name}.f32").write_bytes(blob)
        report(name, (losses, norms, grads, params), train(case, clip, torch.float32))


def report(name, exact, single):
    """How far PyTorch's own float32 is from what is written."""
    far = max(abs(a - b) / a for a, b in zip(exact[0] + exact[1], single[0] + single[1]))
    print(f"{name}: norms {' '.join(f'{norm:.2f}' for norm in exact[1])}; torch in float32: losses and norms {far:.1e}", end="")
    for title, these, those in (("gradients", exact[2], single[2]), ("params", exact[3], single[3])):
        errors = {key: (value - those[key].double()).abs() for key, value in these.items() if "qkv.bias" not in key}
        whole = max((errors[key].norm() / these[key].norm()).item() for key in errors)
        largest = max((error.max() / these[key].square().mean().sqrt()).item() for key, error in errors.items())
        print(f", {title} {whole:.1e} by norm and {largest:.1e} of the tensor's root mean square", end="")
    print()


if __name__ == "__main__":
    main()
