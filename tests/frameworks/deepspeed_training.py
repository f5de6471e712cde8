"""Trains under DeepSpeed's ZeRO-1, -2 and -3, and under files of settings that offload. Arguments: the backend, the files."""
import json
import pathlib
import sys

import deepspeed
import torch
import torch.distributed as dist

import training

# These would be compiled, for minutes: DeepSpeed's own all-reduce, which only inference uses, and its Adam for the CPU.
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
_NOT_ITS_OWN_ADAM = {"zero_force_ds_cpu_optimizer": False, "optimizer": {"type": "AdamW", "params": {"lr": 0.05, "torch_adam": True}}}


def settings_of(path):
    """Of a file, with what it leaves to its user."""
    settings = json.loads(path.read_text())
    settings.setdefault("train_batch_size", training.ROWS * training.SIZE)
    if not deepspeed.accelerator.get_accelerator().is_fp16_supported():
        settings.pop("fp16", None)
    return {**settings, **_NOT_ITS_OWN_ADAM}


deepspeed.init_distributed(dist_backend=sys.argv[1])
trained = {f"ZeRO-{stage}": {"train_micro_batch_size_per_gpu": training.ROWS, "gradient_clipping": 1.0, "zero_optimization": {"stage": stage}, **_NOT_ITS_OWN_ADAM}
           for stage in (1, 2, 3)}
trained.update({path.name: settings_of(path) for path in map(pathlib.Path, sys.argv[2:])})
for name, settings in trained.items():
    module = training.model()
    engine, *_ = deepspeed.initialize(model=module, model_parameters=module.parameters(), config=settings)
    sampler = torch.utils.data.DistributedSampler(training.rows(), shuffle=False)
    losses = []
    for _ in range(engine.gradient_accumulation_steps()):
        for x, y in torch.utils.data.DataLoader(training.rows(), batch_size=engine.train_micro_batch_size_per_gpu(), sampler=sampler):
            loss = training.loss_of(engine, x, y)
            engine.backward(loss)
            engine.step()
            losses.append(loss.item())
    with deepspeed.zero.GatheredParameters(list(engine.module.parameters())):
        training.say(name, losses, engine.module.parameters())
    engine.destroy()
dist.destroy_process_group()
