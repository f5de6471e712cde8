"""Trains under Lightning. Argument: the backend."""
import sys

import pytorch_lightning as lightning
import torch
import torch.distributed as dist
from pytorch_lightning.strategies import DDPStrategy

import training


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = training.model()
        self.losses = []

    def training_step(self, batch, _):
        loss = training.loss_of(self.layers, *batch)
        self.losses.append(self.all_gather(loss.detach()).mean().item())
        self.log("loss", loss, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.05)


module = Module()
trainer = lightning.Trainer(accelerator="cpu", devices=training.SIZE, strategy=DDPStrategy(process_group_backend=sys.argv[1]), max_epochs=1, gradient_clip_val=1.0, logger=False,
                            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer.fit(module, torch.utils.data.DataLoader(training.rows(), batch_size=training.ROWS))
training.say("lightning", module.losses, module.parameters())
dist.destroy_process_group()
