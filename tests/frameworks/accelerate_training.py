"""Trains under Accelerate, whose settings come from `accelerate launch`. Argument: the backend."""
import sys

import torch
import torch.distributed as dist
from accelerate import Accelerator

import training

# On the CPU, Accelerate would make a group of gloo's; it takes the one that is there.
dist.init_process_group(sys.argv[1])
accelerator = Accelerator()
assert accelerator.num_processes == dist.get_world_size() and accelerator.mixed_precision == "bf16", accelerator.state
module = training.model()
module, optimizer, loader = accelerator.prepare(module, torch.optim.AdamW(module.parameters(), lr=0.05), torch.utils.data.DataLoader(training.rows(), batch_size=training.ROWS))
losses = []
for x, y in loader:
    optimizer.zero_grad()
    loss = training.loss_of(module, x, y)
    accelerator.backward(loss)
    accelerator.clip_grad_norm_(module.parameters(), 1.0)
    optimizer.step()
    losses.append(accelerator.gather(loss.detach()).mean().item())
training.say("accelerate", losses, accelerator.unwrap_model(module).parameters())
dist.destroy_process_group()
